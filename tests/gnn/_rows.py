"""Rows, their indices and the ways to add them; the check of a call that falls back."""

from __future__ import annotations

from collections.abc import Callable

import torch
from hypothesis import strategies as st
from ops._floats import assert_alike, every_warning, same_ending
from quant._engine import Counts, counted
from torch import Tensor

DTYPES = (torch.float32, torch.float64)
WIDTHS = (None, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 64, 70, 130, 300)
"""Columns; None means one-dimensional tensors."""


def rows(count: int, width: int | None, dtype: torch.dtype = torch.float32) -> Tensor:
    """`count` rows of random numbers."""
    return torch.randn((count,) if width is None else (count, width), dtype=dtype)


def spread(index: Tensor, like: Tensor) -> Tensor:
    """`index` expanded to the columns of `like`, as scatter_add and gather take it."""
    shape = (index.shape[0],) + (1,) * (like.dim() - 1)
    return index.view(shape).expand(index.shape[0], *like.shape[1:])


def scatter_add(x: Tensor, index: Tensor, src: Tensor) -> Tensor:
    return x.scatter_add(0, spread(index, src), src)


def scatter_add_in_place(x: Tensor, index: Tensor, src: Tensor) -> Tensor:
    return x.clone().scatter_add_(0, spread(index, src), src)


def scatter_add_out(x: Tensor, index: Tensor, src: Tensor) -> Tensor:
    out = torch.full_like(x, float("nan"))
    return torch.scatter_add(x, 0, spread(index, src), src, out=out)


def scatter_add_onto_itself(x: Tensor, index: Tensor, src: Tensor) -> Tensor:
    x = x.clone()
    return torch.scatter_add(x, -x.dim(), spread(index, src), src, out=x)


def index_add(x: Tensor, index: Tensor, src: Tensor) -> Tensor:
    return x.index_add(0, index, src)


def index_add_in_place(x: Tensor, index: Tensor, src: Tensor) -> Tensor:
    return x.clone().index_add_(-x.dim(), index, src)


def index_add_out(x: Tensor, index: Tensor, src: Tensor) -> Tensor:
    return torch.index_add(x, 0, index, src, out=torch.full_like(x, float("nan")))


def index_put(x: Tensor, index: Tensor, src: Tensor) -> Tensor:
    return x.index_put((index,), src, accumulate=True)


def index_put_in_place(x: Tensor, index: Tensor, src: Tensor) -> Tensor:
    return x.clone().index_put_((index,), src, accumulate=True)


ADDS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "scatter_add": scatter_add,
    "scatter_add_": scatter_add_in_place,
    "scatter_add.out": scatter_add_out,
    "scatter_add.out, itself": scatter_add_onto_itself,
    "index_add": index_add,
    "index_add_": index_add_in_place,
    "index_add.out": index_add_out,
    "index_put": index_put,
    "index_put_": index_put_in_place,
}


def check_fallback(call: Callable[[], Tensor]) -> Counts:
    """Assert that `call` ends as on torch, and that a fallback is counted; return the counters."""

    def seeded() -> Tensor:
        torch.manual_seed(1)
        return call()

    with every_warning(), counted() as counts:
        ours, theirs = same_ending(seeded)
    if theirs.error is None:
        assert torch.equal(ours.result, theirs.result)
        assert_alike(ours.result, theirs.result)
        assert sum(counts.fallbacks.values()) >= 1
    return counts


def counted_name(way: str) -> str:
    """The name that ADDS[way] is counted under."""
    return way.split(".")[0].split(",")[0].rstrip("_")


@st.composite
def indices(draw: st.DrawFn, nodes: int) -> Tensor:
    """int32 or int64 indices: shuffled, ascending, or all the same."""
    count = draw(st.sampled_from([1, 2, 3, 17, 200, 3000]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    index = torch.randint(0, nodes, (count,), generator=generator)
    order = draw(st.sampled_from(["shuffled", "ascending", "same"]))
    if order == "ascending":
        index = index.sort().values
    elif order == "same":
        index = index[:1].repeat(count)
    return index.to(draw(st.sampled_from([torch.int32, torch.int64])))
