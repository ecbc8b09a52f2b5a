"""Products of COO and dense matrices: compared with torch's, and after changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from ops._floats import assert_alike
from quant._engine import counted, needs_plugin, off
from torch import Tensor

from gnn._graphs import quiet
from gnn._rows import check_fallback

pytestmark = [needs_plugin, *quiet]

_WAYS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "A @ x": lambda a, x: a @ x,
    "sparse.mm": torch.sparse.mm,
    "mm": torch.mm,
}
ways = pytest.mark.parametrize("way", _WAYS)


def _coo(dtype: torch.dtype = torch.float32, coalesced: bool = False) -> Tensor:
    """Shape [20, 30], 100 entries, some of them duplicates."""
    indices = torch.stack([torch.randint(0, 20, (100,)), torch.randint(0, 30, (100,))])
    indices[:, 7] = indices[:, 3]
    matrix = torch.sparse_coo_tensor(indices, torch.randn(100, dtype=dtype), (20, 30))
    return matrix.coalesce() if coalesced else matrix


@ways
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("coalesced", [True, False])
@pytest.mark.parametrize("width", [1, 3, 16, 70])
def test_against_dense(way: str, dtype: torch.dtype, coalesced: bool, width: int) -> None:
    matrix, x = _coo(dtype, coalesced), torch.randn(30, width, dtype=dtype)
    with counted() as counts:
        got = _WAYS[way](matrix, x)
    assert counts.calls["sparse_mm.cpuaccel"] == 1
    torch.testing.assert_close(got, matrix.to_dense() @ x)
    with off():
        assert_alike(got, _WAYS[way](matrix, x))


@pytest.mark.parametrize("width", [1, 5, 20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_few_entries_are_not_sorted(width: int, dtype: torch.dtype) -> None:
    matrix, x = _coo(dtype), torch.randn(30, 20, dtype=dtype)[:, :width]
    turned = torch.sparse_coo_tensor(matrix._indices().t().contiguous().t(), matrix._values())
    for each in (matrix, matrix.t(), matrix.coalesce(), turned):
        dense = x[: each.shape[1]]
        with counted() as counts:
            got = torch.sparse.mm(each, dense)
        assert counts.without_copies() == {"sparse_mm.cpuaccel": 1}
        torch.testing.assert_close(got, each.to_dense() @ dense)


def test_sorted_once_and_never_stale() -> None:
    matrix, x = _coo(), torch.randn(30, 70)
    with counted() as counts:
        torch.sparse.mm(matrix, x)
        torch.sparse.mm(matrix, x)
    assert counts.calls["sort_edges.cpuaccel"] == 1
    matrix._values().mul_(2)
    matrix._indices()[0, 50] = 19
    torch.testing.assert_close(torch.sparse.mm(matrix, x), matrix.to_dense() @ x)
    matrix._values().numpy()[5] = 7.0
    torch.testing.assert_close(torch.sparse.mm(matrix, x), matrix.to_dense() @ x)


@pytest.mark.parametrize("coalesced", [True, False])
def test_gradients(coalesced: bool) -> None:
    matrix = _coo(torch.float64, coalesced).requires_grad_()
    x = torch.randn(30, 3, dtype=torch.float64, requires_grad=True)
    run = torch.sparse.mm
    got = torch.autograd.grad(run(matrix, x).square().sum(), (matrix, x))
    with off():
        expected = torch.autograd.grad(run(matrix, x).square().sum(), (matrix, x))
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours.to_dense(), theirs.to_dense())
    assert torch.autograd.gradcheck(lambda b: run(matrix.detach(), b), (x,))


_FALLBACKS: dict[str, Callable[[], Tensor]] = {
    "added": lambda: torch.addmm(torch.ones(20, 4), _coo(), torch.ones(30, 4)),
    "type": lambda: _coo().bfloat16() @ torch.ones(30, 4, dtype=torch.bfloat16),
    "types": lambda: _coo() @ torch.ones(30, 4).double(),
    "shape": lambda: _coo() @ torch.ones(29, 4),
    "no entries": lambda: torch.sparse_coo_tensor(size=(3, 4)) @ torch.ones(4, 2),
    "no columns": lambda: _coo() @ torch.ones(30, 0),
}


@pytest.mark.parametrize("case", _FALLBACKS)
def test_fallbacks(case: str) -> None:
    counts = check_fallback(_FALLBACKS[case])
    assert "sparse_mm.cpuaccel" not in counts.calls


def test_out_of_range_is_an_error() -> None:
    indices = torch.tensor([[0, 3], [1, 2]])
    matrix = torch.sparse_coo_tensor(indices, torch.ones(2), (3, 4), check_invariants=False)
    with pytest.raises(
        IndexError, match=r"row indices of the sparse matrix to be at least 0 and below 3, .* got 3"
    ):
        matrix @ torch.ones(4, 2)


_CALLS: dict[str, Callable[[Tensor], Tensor]] = {
    "product": lambda a: a @ torch.ones(4, 2),
    "vector": lambda a: a @ torch.ones(4),
    "addmm": lambda a: torch.addmm(torch.ones(3, 2), a, torch.ones(4, 2), beta=2, alpha=3),
    "addmm_": lambda a: torch.ones(3, 2).addmm_(a, torch.ones(4, 2)),
    "transposed": lambda a: a.t() @ torch.ones(3, 2),
    "16 bits": lambda a: a.bfloat16() @ torch.ones(4, 2, dtype=torch.bfloat16),
    "gradient": lambda a: torch.autograd.grad(
        torch.sparse.mm(a.requires_grad_(), torch.ones(4, 2)).sum(), a
    )[0],
}


@pytest.mark.parametrize("call", _CALLS)
@pytest.mark.parametrize("place", [(0, 1), (1, 0)], ids=["row", "column"])
@pytest.mark.parametrize("index", [-1, 4, 900_000_000])
def test_every_product_rejects_an_index_out_of_range(
    call: str, place: tuple[int, int], index: int
) -> None:
    indices = torch.tensor([[0, 2], [1, 2]])
    indices[place] = index
    matrix = torch.sparse_coo_tensor(indices, torch.ones(2), (3, 4), check_invariants=False)
    with pytest.raises((IndexError, RuntimeError)):
        _CALLS[call](matrix)
