"""Cases of the gradients of float convolutions and attention."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from benchmarks._timing import Runner
from benchmarks.ops.never_slower._case import DTYPES, Case, numbers, sizes

_aten: Any = torch.ops.aten
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# batch, input and output channels, taps, side of the image
_CONVOLUTIONS = ((1, 3, 16, 3, 32), (2, 64, 64, 3, 28), (2, 256, 64, 1, 28))
# batch, heads, queries, keys, columns
_ATTENTION = ((1, 2, 4, 4, 16), (1, 12, 128, 128, 64))


def cases() -> Iterator[Case]:
    """All cases of this file."""
    for dtype in _DTYPES:
        for shape in _CONVOLUTIONS:
            yield _convolution(shape, dtype)
        for heads in _ATTENTION:
            yield _attention(heads, dtype)


def _convolution(shape: tuple[int, ...], dtype: torch.dtype) -> Case:
    N, C, OC, taps, side = shape

    def make() -> Runner:
        x, weight = numbers(N, C, side, side, dtype=dtype), numbers(OC, C, taps, taps, dtype=dtype)
        gradient = numbers(N, OC, side, side, dtype=dtype, seed=2)
        same, pad = [1, 1], [taps // 2] * 2
        return partial(
            _aten.convolution_backward,
            *(gradient, x, weight, [OC], same, pad, same, False, [0, 0], 1, [True] * 3),
        )

    label = f"{DTYPES[dtype]} {N}x{C}x{sizes((side, side))} -> {OC} {taps}"
    return Case("aten::convolution_backward", "CPU", label, make)


def _attention(heads: tuple[int, ...], dtype: torch.dtype) -> Case:
    N, H, L, S, E = heads

    def make() -> Runner:
        q = numbers(N, H, L, E, dtype=dtype)
        k, v = (numbers(N, H, S, E, dtype=dtype) for _ in range(2))
        gradient = numbers(N, H, L, E, dtype=dtype, seed=2)
        forward = _aten._scaled_dot_product_flash_attention_for_cpu
        result, logsumexp = forward(q, k, v, 0.0, False)
        return partial(
            _aten._scaled_dot_product_flash_attention_for_cpu_backward,
            *(gradient, q, k, v, result, logsumexp, 0.0, False),
        )

    label = f"{DTYPES[dtype]} {sizes(heads)}"
    name = "aten::_scaled_dot_product_flash_attention_for_cpu_backward"
    return Case(name, "CPU", label, make)
