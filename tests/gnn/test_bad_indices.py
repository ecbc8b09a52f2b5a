"""Indices out of range raise an error, where torch reads and writes outside of its memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from quant._engine import needs_plugin
from torch import Tensor

from gnn._graphs import REDUCTIONS, index_dtypes, quiet, unchecked

pytestmark = [
    needs_plugin,
    *quiet,
    pytest.mark.filterwarnings("ignore:Sparse BSR tensor support"),
    pytest.mark.filterwarnings("ignore:An output with one or more elements was resized"),
]

_COLUMNS = 5


def _of(a: Tensor, dtype: torch.dtype) -> Tensor:
    return unchecked(a.crow_indices(), a.col_indices(), a.values().to(dtype), (3, _COLUMNS))


def _blocks(a: Tensor) -> Tensor:
    parts = a.crow_indices(), a.col_indices(), a.values()[:, None, None]
    return torch.sparse_bsr_tensor(*parts, (3, _COLUMNS), check_invariants=False)


def _calls() -> dict[str, Callable[[Tensor], object]]:
    calls: dict[str, Callable[[Tensor], object]] = {
        f"mm {reduce}": lambda a, r=reduce: torch.sparse.mm(a, torch.randn(_COLUMNS, 4), r)
        for reduce in REDUCTIONS
    }
    calls["product"] = lambda a: a @ torch.randn(_COLUMNS, 4)
    calls["transposed"] = lambda a: a.t() @ torch.randn(3, 4)
    x, v, u, c = torch.randn(_COLUMNS, 4), torch.randn(_COLUMNS), torch.randn(3), torch.randn(3, 4)
    half, whole = torch.bfloat16, torch.complex64
    calls |= {
        "vector": lambda a: a @ v,
        "mv": lambda a: torch.mv(a, v),
        "transposed vector": lambda a: a.t() @ u,
        "addmv": lambda a: torch.addmv(u, a, v, beta=2),
        "addmv_": lambda a: u.clone().addmv_(a, v),
        "addmv without a product": lambda a: torch.addmv(u, a, v, alpha=0),
        "addmm": lambda a: torch.addmm(c, a, x, beta=2, alpha=0.5),
        "addmm_": lambda a: c.clone().addmm_(a, x),
        "addmm without a product": lambda a: torch.addmm(c, a, x, alpha=0),
        "addmm transposed": lambda a: torch.addmm(x, a.t(), c),
        "out": lambda a: torch.mm(a, x, out=torch.empty(4, 3).t()),
        "out of another size": lambda a: torch.mm(a, x, out=torch.empty(0)),
        "16 bits": lambda a: _of(a, half) @ x.to(half),
        "16 bits vector": lambda a: _of(a, half) @ v.to(half),
        "complex": lambda a: _of(a, whole) @ x.to(whole),
        "complex vector": lambda a: _of(a, whole) @ v.to(whole),
        "behind a dense one": lambda a: c.t() @ a,
        "two sparse ones": lambda a: a.t() @ a,
        "blocks": lambda a: _blocks(a) @ x,
        "blocks vector": lambda a: _blocks(a) @ v,
    }
    for reduce in REDUCTIONS:
        for wanted in ((True, False), (False, True)):
            calls[f"backward {reduce} {wanted}"] = lambda a, r=reduce, w=wanted: (
                torch.ops.aten._sparse_mm_reduce_impl_backward(
                    a,
                    torch.randn(3, 4),
                    torch.randn(_COLUMNS, 4),
                    r,
                    torch.zeros(3, 4, dtype=a.col_indices().dtype)
                    + torch.tensor([[0], [2], [2]], dtype=a.col_indices().dtype),
                    w,
                )
            )
    return calls


_CALLS = _calls()


@index_dtypes
@pytest.mark.parametrize("call", _CALLS)
@pytest.mark.parametrize("column", [-1, _COLUMNS, 900_000_000, 2**31 - 1, -(2**31)])
def test_columns(call: str, column: int, index: torch.dtype) -> None:
    col = torch.tensor([column, 1, column, 3, 4]).to(index)
    matrix = unchecked(torch.tensor([0, 2, 3, 5]).to(index), col, torch.randn(5), (3, _COLUMNS))
    with pytest.raises(RuntimeError, match="plain indices of the sparse matrix must be at least 0"):
        _CALLS[call](matrix)


@index_dtypes
@pytest.mark.parametrize("call", _CALLS)
@pytest.mark.parametrize(
    "crow", [[1, 2, 3, 5], [0, 3, 2, 5], [0, 2, 3, 4], [0, 2, 3, 6], [0, -1, 3, 5], [0, 99, 3, 5]]
)
def test_rows(call: str, crow: list[int], index: torch.dtype) -> None:
    col = torch.tensor([0, 1, 2, 3, 4]).to(index)
    matrix = unchecked(torch.tensor(crow).to(index), col, torch.randn(5), (3, _COLUMNS))
    with pytest.raises(RuntimeError, match="must ascend from 0 to 5"):
        _CALLS[call](matrix)


@index_dtypes
@pytest.mark.parametrize("entry", [-1, 3, 6, 2**31 - 1])
@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_accepted_entries(entry: int, reduce: str, index: torch.dtype) -> None:
    matrix = unchecked(
        torch.tensor([0, 2, 3, 5]).to(index), torch.arange(5).to(index), torch.randn(5), (3, 5)
    )
    arg = torch.full((3, 4), entry).to(index)
    backward = torch.ops.aten._sparse_mm_reduce_impl_backward
    for wanted in ((True, False), (False, True)):
        with pytest.raises(RuntimeError, match="an entry of another row"):
            backward(matrix, torch.randn(3, 4), torch.randn(5, 4), reduce, arg, wanted)
    with pytest.raises(RuntimeError, match="expected arg_out to have the size of grad_out"):
        backward(matrix, torch.randn(3, 4), torch.randn(5, 4), reduce, arg[:2], (True, True))
