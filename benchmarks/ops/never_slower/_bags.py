"""Cases of EmbeddingBag and of its gradients."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks._timing import Runner
from benchmarks.ops.never_slower._case import DTYPES, Case, integers, numbers

_aten: Any = torch.ops.aten

# Rows and columns of the table, bags, indices of a bag.
_SIZES = (
    *((10, 4, 1, 1), (100, 16, 8, 4), (1000, 64, 32, 1), (10_000, 64, 512, 10)),
    *((100_000, 3, 512, 20), (100_000, 64, 512, 10), (100_000, 128, 1024, 30)),
)
_MODES = ("sum", "mean", "max")


def cases() -> Iterator[Case]:
    """All cases of this file."""
    for size in _SIZES:
        for mode in range(len(_MODES)):
            for dtype in (torch.float32, torch.float64, torch.bfloat16):
                yield from _forward(size, mode, dtype)
            yield from _backward(size, mode)
        yield from _weights_backward(size)


def _label(size: tuple[int, ...], dtype: torch.dtype, mode: int, extra: str = "") -> str:
    N, K, M, count = size
    return f"{DTYPES[dtype]} {N}x{K}, {M} bags of {count}, {_MODES[mode]}{extra}"


def _bags(size: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Indices and offsets."""
    N, _, M, count = size
    return integers(M * count, N), torch.arange(0, M * count, count)


def _table(size: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return numbers(size[0], size[1]).to(dtype)


def _forward(size: tuple[int, ...], mode: int, dtype: torch.dtype) -> Iterator[Case]:
    def make(op: Any, padding: int) -> Runner:
        arguments = (_table(size, dtype), *_bags(size), False, mode, False, None, False, padding)
        return partial(op, *arguments)

    for padding in (-1, 3):
        label = _label(size, dtype, mode, " padded" if padding >= 0 else "")
        for op in ("_embedding_bag", "_embedding_bag_forward_only"):
            yield Case(f"aten::{op}", "CPU", label, partial(make, getattr(_aten, op), padding))


def _backward(size: tuple[int, ...], mode: int) -> Iterator[Case]:
    def operands() -> tuple[Tensor, ...]:
        indices, offsets = _bags(size)
        table = _table(size, torch.float32)
        out, bag, sizes, chosen = _aten._embedding_bag(table, indices, offsets, False, mode)
        return torch.ones_like(out), indices, offsets, bag, sizes, chosen

    def make(sparse: bool) -> Runner:
        arguments = (*operands(), size[0], False, mode, sparse, None)
        return partial(_aten._embedding_bag_backward, *arguments)

    def make_dense() -> Runner:
        grad, indices, offsets, bag, sizes, chosen = operands()
        if not bag.numel():
            bag = torch.arange(len(offsets)).repeat_interleave(size[3])
        arguments = (grad, indices, bag, sizes, chosen, size[0], False, mode, None)
        return partial(_aten._embedding_bag_dense_backward, *arguments)

    label = _label(size, torch.float32, mode)
    yield Case("aten::_embedding_bag_dense_backward", "CPU", label, make_dense)
    for sparse in (False, True) if mode < 2 else (False,):
        name = label + (" sparse" if sparse else "")
        yield Case("aten::_embedding_bag_backward", "CPU", name, partial(make, sparse))


def _weights_backward(size: tuple[int, ...]) -> Iterator[Case]:
    def make(dtype: torch.dtype) -> Runner:
        indices, offsets = _bags(size)
        grad = numbers(size[2], size[1]).to(dtype)
        bag = torch.arange(size[2]).repeat_interleave(size[3])
        return partial(
            _aten._embedding_bag_per_sample_weights_backward,
            *(grad, _table(size, dtype), indices, offsets, bag, 0),
        )

    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        op = "aten::_embedding_bag_per_sample_weights_backward"
        yield Case(op, "CPU", _label(size, dtype, 0), partial(make, dtype))
