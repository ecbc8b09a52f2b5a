"""Sparse matrices and their products in float64; gradients and bad edges for the GNN ops."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

REDUCTIONS = ("sum", "mean", "amax", "amin")
INDEX_DTYPES = (torch.int32, torch.int64)
reductions = pytest.mark.parametrize("reduce", REDUCTIONS)
index_dtypes = pytest.mark.parametrize("index", INDEX_DTYPES, ids=lambda dtype: str(dtype)[6:])
quiet = [
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support"),
    pytest.mark.filterwarnings("ignore:Sparse CSC tensor support"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks"),
]


def csr(
    degrees: Tensor,
    columns: int,
    dtype: torch.dtype = torch.float32,
    index: torch.dtype = torch.int64,
    seed: int = 0,
) -> Tensor:
    """A matrix whose rows have these numbers of entries, in random and repeated columns."""
    generator = torch.Generator().manual_seed(seed)
    crow = torch.cat([torch.zeros(1, dtype=torch.int64), degrees.cumsum(0)])
    count = int(crow[-1])
    col = torch.randint(0, max(columns, 1), (count,), generator=generator)
    values = torch.randn(count, generator=generator, dtype=torch.float64).to(dtype)
    return unchecked(crow.to(index), col.to(index), values, (len(degrees), columns))


def unchecked(crow: Tensor, col: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """The matrix of these parts, without checks."""
    return torch.sparse_csr_tensor(crow, col, values, size, check_invariants=False)


def dense(matrix: Tensor) -> Tensor:
    """The dense matrix in float64, with repeated entries added."""
    crow, col = matrix.crow_indices().long(), matrix.col_indices().long()
    row = torch.repeat_interleave(torch.arange(matrix.shape[0]), crow.diff())
    result = torch.zeros(matrix.shape, dtype=torch.float64)
    return result.index_put((row, col), matrix.values().double(), accumulate=True)


def reduced(matrix: Tensor, x: Tensor, reduce: str) -> Tensor:
    """`torch.sparse.mm(matrix, x, reduce)` in float64, row by row."""
    rows = []
    crow = matrix.crow_indices().tolist()
    col, values = matrix.col_indices().long(), matrix.values().double()
    for begin, end in itertools.pairwise(crow):
        terms = values[begin:end, None] * x.double()[col[begin:end]]
        if begin == end:
            rows.append(torch.zeros(x.shape[1], dtype=torch.float64))
        elif reduce in ("sum", "mean"):
            rows.append(terms.sum(0) if reduce == "sum" else terms.mean(0))
        else:
            rows.append(getattr(terms, reduce)(0))
    return torch.stack(rows) if rows else torch.zeros((0, x.shape[1]), dtype=torch.float64)


@st.composite
def graphs(draw: st.DrawFn, dtype: torch.dtype = torch.float32) -> Tensor:
    """Small graphs: empty rows, hubs, one column, no column at all."""
    columns = draw(st.integers(1, 40))
    degrees = draw(st.lists(st.sampled_from([0, 0, 1, 2, 3, 9, 600]), min_size=1, max_size=12))
    index = draw(st.sampled_from(INDEX_DTYPES))
    return csr(torch.tensor(degrees), columns, dtype, index, draw(st.integers(0, 1000)))


def gradients(result: Tensor, needs: list[Tensor]) -> tuple[Tensor, ...]:
    """The gradients of `needs`, for a gradient of `result` of whole numbers."""
    grad = torch.arange(result.numel()).reshape(result.shape) % 7 - 3
    return torch.autograd.grad(result, needs, grad.to(result.dtype))


def check_rejects_other_edges(name: str, arguments: Sequence[object], position: int) -> None:
    """Assert that an op rejects anything but the result of sort_edges as this argument."""
    edges = arguments[position]
    assert isinstance(edges, Tensor)
    for bad in (edges + 1, edges - 1, edges[1:], edges.float(), edges[:0], edges * 1000):
        changed = [*arguments[:position], bad, *arguments[position + 1 :]]
        with pytest.raises(RuntimeError, match="sort_edges"):
            getattr(torch.ops.cpuaccel, name)(*changed)
