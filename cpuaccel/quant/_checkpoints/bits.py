"""Integers of a few bits from int32 words."""

from __future__ import annotations

import math

import torch
from torch import Tensor

PART = 256
"""Columns that are unpacked at a time, which bounds the memory of int16."""


def unpack_rows(words: Tensor, bits: int) -> Tensor:
    """Return the integers of int32 ``words``, which lie one after another along dimension 0.

    Integer i of a column has bits ``bits * i`` to ``bits * (i + 1) - 1`` of the column's words, the
    lowest bit of a word first. An integer of 3 bits may lie in two words.

    Returns:
        int16, (words.shape[0] * 32 / bits, ...).
    """
    of_period = bits // math.gcd(32, bits)  # words after which integers begin at bit 0 again
    integers = of_period * 32 // bits
    result = words.new_empty((words.shape[0] * 32 // bits, *words.shape[1:]), dtype=torch.int16)
    mask = (1 << bits) - 1
    for i in range(integers):
        word, shift = divmod(i * bits, 32)
        values = words[word::of_period] >> shift
        if shift + bits > 32:
            here = 32 - shift
            values = (values & ((1 << here) - 1)) | (words[word + 1 :: of_period] << here)
        result[i::integers] = values & mask
    return result


def unpack_planes(words: Tensor, bits: int) -> Tensor:
    """Return the integers of int32 ``words`` that hold them by planes, as format "gptq_p" does.

    ``bits`` words hold 32 integers: planes of 4, 2 and 1 bits, as many as ``bits`` needs, or of
    its own size if that is 2, 4 or 8. The plane of the lowest bits is first; a plane holds its part
    of the integers one after another.

    Returns:
        int16, (words.shape[0] * 32 / bits, ...).
    """
    blocks = words.view(-1, bits, *words.shape[1:])
    result = words.new_zeros((len(blocks), 32, *words.shape[1:]), dtype=torch.int16)
    first = 0
    for width in (8,) if bits == 8 else tuple(each for each in (4, 2, 1) if bits & each):
        of_plane = blocks[:, first : first + width].flatten(0, 1)
        part = unpack_rows(of_plane.contiguous(), width)
        result += part.view_as(result) << first
        first += width
    return result.flatten(0, 1)
