"""Translates concatenations of quantized tensors."""

from __future__ import annotations

from typing import Any

import torch

from cpuaccel.compile.bridge._arguments import arguments_of, dimension, only_user
from cpuaccel.compile.bridge.quantized.quantize_chain import Matches, QuantizeChain
from cpuaccel.compile.bridge.quantized.tensors import CODES, is_dequantize, quantizer_of, source_of
from cpuaccel.compile.bridge.translation import Translation

_aten: Any = torch.ops.aten


def concat(translation: Translation, found: QuantizeChain) -> bool:
    """quantize(function(cat(dequantize(a), dequantize(b), ...)))"""
    node = found.anchor
    if node.target is not _aten.cat.default or only_user(node) is None:
        return False
    given = arguments_of(node)
    parts = given["tensors"]
    if not all(is_dequantize(part) for part in parts):
        return False
    dimensions = {translation.tensor(part).dim() for part in parts}
    if len(dimensions) != 1:
        return False
    translation.look_through(node, *parts)
    translation.begin([node, *found.nodes], found.quantize)
    tables: list[int] = []
    table_of = []
    for part in parts:
        entries = found.table(quantizer_of(part))
        if entries == list(range(CODES)):
            table_of.append(-1)
            continue
        table_of.append(len(tables) // CODES)
        tables += entries
    attributes: dict[str, Any] = {"tables": tables} if tables else {}
    translation.op(
        "q_concat",
        [translation.read(source_of(part)) for part in parts],
        found.quantize,
        axis=dimension(given["dim"], dimensions.pop()),
        table_of=table_of,
        **attributes,
    )
    translation.end()
    return True


MATCHES: Matches = {concat: ("q_concat",)}
