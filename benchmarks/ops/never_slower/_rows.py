"""Cases of index_select, gather, scatter and segment ops on rows, and of their gradients."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks._timing import Runner
from benchmarks.ops.never_slower._case import DTYPES, Case, integers, numbers

_aten: Any = torch.ops.aten

# Rows, columns, indices.
_SIZES = (
    *((1, 1, 1), (10, 1, 10), (30, 1, 60), (30, 16, 100), (1000, 1, 5000), (1000, 64, 5000)),
    *((1000, 256, 5000), (100_000, 1, 400_000), (100_000, 3, 400_000), (20_000, 64, 100_000)),
)
_FEW = ((30, 16, 100), (1000, 64, 5000), (1000, 256, 5000))
_REDUCTIONS = ("sum", "mean", "amax", "prod")


def cases() -> Iterator[Case]:
    """All cases of this file."""
    for size in _SIZES:
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            if dtype == torch.float32 or size in _FEW:
                yield from _select(size, dtype, torch.int64)
                yield from _add(size, dtype)
                yield from _reduce(size, dtype)
        yield from _derived(size)
        yield from _segments(size)
    for size in _FEW:
        yield from _select(size, torch.float32, torch.int32)
        yield from _select(size, torch.int64, torch.int64)


def _label(size: tuple[int, ...], dtype: torch.dtype, extra: str = "") -> str:
    N, K, E = size
    return f"{DTYPES[dtype]} {N}x{K}, {E} indices{extra}"


def _wide(index: Tensor, K: int) -> Tensor:
    """The row index expanded to every column, as scatter and gather take it."""
    return index[:, None].expand(-1, K)


def _select(size: tuple[int, ...], dtype: torch.dtype, of: torch.dtype) -> Iterator[Case]:
    N, K, E = size

    def x() -> Tensor:
        return numbers(N, K).to(dtype)

    def out() -> Tensor:
        return torch.empty(E, K, dtype=dtype)

    def index() -> Tensor:
        return integers(E, N, of)

    makes: dict[str, Callable[[], Runner]] = {
        "aten::index_select": lambda: partial(torch.index_select, x(), 0, index()),
        "aten::index_select.out": lambda: partial(torch.index_select, x(), 0, index(), out=out()),
        "aten::index.Tensor": lambda: partial(_aten.index.Tensor, x(), [index()]),
    }
    if of == torch.int64:
        makes["aten::gather"] = lambda: partial(torch.gather, x(), 0, _wide(index(), K))
        makes["aten::gather.out"] = lambda: partial(
            torch.gather, x(), 0, _wide(index(), K), out=out()
        )
    label = _label(size, dtype, "" if of == torch.int64 else " i32")
    for op, make in makes.items():
        yield Case(op, "CPU", label, make)


def _add(size: tuple[int, ...], dtype: torch.dtype) -> Iterator[Case]:
    N, K, E = size

    def x(seed: int = 3) -> Tensor:
        return numbers(N, K, dtype=dtype, seed=seed)

    def src() -> Tensor:
        return numbers(E, K, dtype=dtype)

    def index() -> Tensor:
        return integers(E, N)

    makes: dict[str, Callable[[], Runner]] = {
        "aten::scatter_add": lambda: partial(_aten.scatter_add, x(), 0, _wide(index(), K), src()),
        "aten::scatter_add_": lambda: partial(_aten.scatter_add_, x(), 0, _wide(index(), K), src()),
        "aten::scatter_add.out": lambda: partial(
            torch.scatter_add, x(), 0, _wide(index(), K), src(), out=x(4)
        ),
        "aten::index_add": lambda: partial(_aten.index_add, x(), 0, index(), src()),
        "aten::index_add_": lambda: partial(_aten.index_add_, x(), 0, index(), src()),
        "aten::index_add.out": lambda: partial(torch.index_add, x(), 0, index(), src(), out=x(4)),
        "aten::_index_put_impl_": lambda: partial(
            _aten._index_put_impl_, x(), [index()], src(), True
        ),
    }
    for op, make in makes.items():
        yield Case(op, "CPU", _label(size, dtype), make)


def _reduce(size: tuple[int, ...], dtype: torch.dtype) -> Iterator[Case]:
    N, K, E = size

    def x(seed: int = 3) -> Tensor:
        return numbers(N, K, dtype=dtype, seed=seed)

    def src() -> Tensor:
        return numbers(E, K, dtype=dtype)

    def index() -> Tensor:
        return integers(E, N)

    def scatter(op: Any, reduce: str, **arguments: Any) -> Runner:
        return partial(
            op, x(), 0, _wide(index(), K), src(), reduce, include_self=False, **arguments
        )

    def by_index(op: Any, reduce: str, **arguments: Any) -> Runner:
        return partial(op, x(), 0, index(), src(), reduce, include_self=False, **arguments)

    for reduce in _REDUCTIONS:
        label = _label(size, dtype, f" {reduce}")
        makes: dict[str, Callable[[], Runner]] = {
            "aten::scatter_reduce.two": partial(scatter, _aten.scatter_reduce.two, reduce),
            "aten::scatter_reduce_.two": partial(scatter, _aten.scatter_reduce_.two, reduce),
            "aten::scatter_reduce.two_out": lambda reduce=reduce: scatter(
                torch.scatter_reduce, reduce, out=x(4)
            ),
        }
        if reduce != "sum":
            makes["aten::index_reduce"] = partial(by_index, _aten.index_reduce, reduce)
            makes["aten::index_reduce_"] = partial(by_index, _aten.index_reduce_, reduce)
            makes["aten::index_reduce.out"] = lambda reduce=reduce: by_index(
                torch.index_reduce, reduce, out=x(4)
            )
        for op, make in makes.items():
            yield Case(op, "CPU", label, make)


def _derived(size: tuple[int, ...]) -> Iterator[Case]:
    """Forward and backward: the kernels under AutogradCPU, and the kernels that backward calls."""
    N, K, E = size

    def learns(make: Callable[[Tensor, Tensor, Tensor], Tensor], rows: int) -> Runner:
        src = numbers(rows, K).requires_grad_()
        index, zeros = integers(E, N), torch.zeros(N, K)

        def run() -> object:
            with torch.enable_grad():
                result = make(zeros, index, src)
                return torch.autograd.grad(result, src, torch.ones_like(result))

        return run

    def scatter(reduce: str, in_place: bool, zeros: Tensor, index: Tensor, src: Tensor) -> Tensor:
        to = zeros.clone() if in_place else zeros
        op = to.scatter_reduce_ if in_place else to.scatter_reduce
        return op(0, _wide(index, K), src, reduce, include_self=False)

    def by_index(reduce: str, in_place: bool, zeros: Tensor, index: Tensor, src: Tensor) -> Tensor:
        to = zeros.clone() if in_place else zeros
        op = to.index_reduce_ if in_place else to.index_reduce
        return op(0, index, src, reduce, include_self=False)

    for end, in_place in (("", False), ("_", True)):
        for reduce in ("mean", "amax"):
            label = _label(size, torch.float32, f" {reduce}, forward and backward")
            for op, make in (("scatter_reduce", scatter), ("index_reduce", by_index)):
                name = f"aten::{op}{end}" + (".two" if op == "scatter_reduce" else "")
                body = partial(make, reduce, in_place)
                yield Case(name, "AutogradCPU", label, partial(learns, body, E))
    label = _label(size, torch.float32, ", forward and backward")
    others: dict[str, tuple[Callable[[Tensor, Tensor, Tensor], Tensor], int]] = {
        "scatter_add": (lambda z, i, s: z.scatter_add(0, _wide(i, K), s), E),
        "index_add": (lambda z, i, s: z.index_add(0, i, s), E),
        "index_select": (lambda z, i, s: s.index_select(0, i), N),
        "gather": (lambda z, i, s: s.gather(0, _wide(i, K)), N),
        "x[index]": (lambda z, i, s: s[i], N),
    }
    for name, (body, rows) in others.items():
        yield Case(name, "", label, partial(learns, body, rows))


def _segments(size: tuple[int, ...]) -> Iterator[Case]:
    N, K, E = size

    def lengths() -> Tensor:
        return integers(E, N).bincount(minlength=N)

    def forward(reduce: str) -> Runner:
        return partial(torch.segment_reduce, numbers(E, K), reduce, lengths=lengths(), axis=0)

    def backward(reduce: str) -> Runner:
        data, counts = numbers(E, K), lengths()
        result = torch.segment_reduce(data, reduce, lengths=counts, axis=0)
        return partial(
            _aten._segment_reduce_backward,
            *(torch.ones_like(result), result, data, reduce),
            lengths=counts,
            axis=0,
        )

    for reduce in ("sum", "mean", "max"):
        label = _label(size, torch.float32, f" {reduce}")
        yield Case("aten::segment_reduce", "CPU", label, partial(forward, reduce))
        yield Case("aten::_segment_reduce_backward", "CPU", label, partial(backward, reduce))
