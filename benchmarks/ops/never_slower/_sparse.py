"""Cases of products of a sparse and a dense matrix, and of their gradients."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks._timing import Runner
from benchmarks.ops.never_slower._case import DTYPES, Case, integers, numbers

_aten: Any = torch.ops.aten
_KEY = "SparseCsrCPU"

# Rows, nnz, columns of the dense matrix.
_SIZES = (
    *((1, 1, 1), (30, 100, 1), (30, 100, 16), (1000, 5000, 1), (1000, 5000, 2), (1000, 5000, 64)),
    *((100_000, 400_000, 1), (100_000, 400_000, 2), (100_000, 400_000, 3)),
    *((100_000, 400_000, 4), (100_000, 400_000, 5), (20_000, 200_000, 64), (2000, 200_000, 1)),
)
_FEW = ((30, 100, 16), (1000, 5000, 2), (100_000, 400_000, 1))


def cases() -> Iterator[Case]:
    """All cases of this file."""
    for size in _SIZES:
        yield from _products(size, torch.float32, torch.int64)
        yield from _reductions(size)
    for size in _FEW:
        yield from _products(size, torch.float64, torch.int64)
        yield from _products(size, torch.float32, torch.int32)


def _matrix(size: tuple[int, ...], dtype: torch.dtype, index: torch.dtype) -> Tensor:
    rows, entries, _ = size
    ends = integers(entries, rows, seed=4).sort().values
    crow = torch.zeros(rows + 1, dtype=torch.int64)
    crow[1:] = ends.bincount(minlength=rows).cumsum(0)
    col = integers(entries, rows)
    values = numbers(entries, dtype=dtype)
    return torch.sparse_csr_tensor(
        crow.to(index), col.to(index), values, (rows, rows), check_invariants=False
    )


def _coo(size: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return _matrix(size, dtype, torch.int64).to_sparse_coo().coalesce()


def _label(size: tuple[int, ...], dtype: torch.dtype, index: torch.dtype, extra: str = "") -> str:
    rows, entries, columns = size
    of = "" if index == torch.int64 else " i32"
    return f"{DTYPES[dtype]} {rows} rows, {entries} entries{of}, {columns} columns{extra}"


def _products(size: tuple[int, ...], dtype: torch.dtype, index: torch.dtype) -> Iterator[Case]:
    rows, _, columns = size
    label = _label(size, dtype, index)

    def x(seed: int = 1) -> Tensor:
        return numbers(rows, columns, dtype=dtype, seed=seed)

    def mm_out() -> Runner:
        return partial(torch.mm, _matrix(size, dtype, index), x(), out=torch.zeros_like(x()))

    def addmm() -> Runner:
        return partial(torch.addmm, x(2), _matrix(size, dtype, index), x(), beta=0)

    def addmm_out() -> Runner:
        out = torch.zeros_like(x())
        return partial(torch.addmm, x(2), _matrix(size, dtype, index), x(), beta=0, out=out)

    def addmv_out() -> Runner:
        vector, out = numbers(rows, dtype=dtype), numbers(rows, dtype=dtype)
        return partial(torch.addmv, out, _matrix(size, dtype, index), vector, beta=0, out=out)

    def coo() -> Runner:
        return partial(torch.sparse.mm, _coo(size, dtype), x())

    yield Case("aten::mm", _KEY, label, lambda: partial(torch.mm, _matrix(size, dtype, index), x()))
    yield Case("aten::mm.out", _KEY, label, mm_out)
    yield Case("aten::addmm", _KEY, label, addmm)
    yield Case("aten::addmm.out", _KEY, label, addmm_out)
    if columns == 1:
        yield Case("aten::addmv.out", _KEY, label, addmv_out)
    if index == torch.int64:
        yield Case("aten::addmm", "SparseCPU", label, coo)


def _reductions(size: tuple[int, ...]) -> Iterator[Case]:
    rows, _, columns = size
    for reduce in ("sum", "mean", "amax"):
        label = _label(size, torch.float32, torch.int64, f" {reduce}")

        def forward(reduce: str = reduce) -> Runner:
            matrix = _matrix(size, torch.float32, torch.int64)
            return partial(_aten._sparse_mm_reduce_impl, matrix, numbers(rows, columns), reduce)

        def derived(reduce: str = reduce) -> Runner:
            matrix = _matrix(size, torch.float32, torch.int64)
            x = numbers(rows, columns).requires_grad_()

            def run() -> object:
                with torch.enable_grad():
                    result = torch.sparse.mm(matrix, x, reduce)
                    return torch.autograd.grad(result, x, torch.ones_like(result))

            return run

        yield Case("aten::_sparse_mm_reduce_impl", _KEY, label, forward)
        backward = f"{label}, forward and backward"
        yield Case("aten::_sparse_mm_reduce_impl_backward", _KEY, backward, derived)
