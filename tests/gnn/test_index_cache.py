"""The transposed graph is made once, and never used for another graph.

Two things are cached for each graph: its indices, and the order of its values.
"""

from __future__ import annotations

import os

import pytest
import torch
from _process import run_python
from _settings import setting
from quant._engine import needs_plugin
from torch import Tensor

from gnn._graphs import csr, dense, index_dtypes, quiet, unchecked

pytestmark = [needs_plugin, pytest.mark.usefixtures("empty_caches"), *quiet]


def _stats() -> dict[str, int]:
    import cpuaccel

    found: dict[str, int] = cpuaccel.stats()["index_cache"]
    return found


def _backward(matrix: Tensor, x: Tensor, reduce: str = "sum") -> Tensor:
    needs = x.detach().requires_grad_()
    (grad,) = torch.autograd.grad(torch.sparse.mm(matrix, needs, reduce).sum(), needs)
    return grad


def _check(matrix: Tensor) -> None:
    x = torch.randn(matrix.shape[1], 3)
    exact = dense(matrix).t() @ torch.ones(matrix.shape[0], 3, dtype=torch.float64)
    torch.testing.assert_close(_backward(matrix, x).double(), exact, rtol=1e-5, atol=1e-5)


@index_dtypes
def test_one_graph_is_sorted_once(index: torch.dtype) -> None:
    matrix = csr(torch.tensor([3, 0, 5, 2]), 6, index=index)
    for _ in range(3):
        _check(matrix)
    # The same for other values, for means, and for the product with the transposed matrix.
    other = unchecked(matrix.crow_indices(), matrix.col_indices(), torch.ones(10), (4, 6))
    _check(other)
    _backward(other, torch.randn(6, 3), "mean")
    _ = matrix.t() @ torch.randn(4, 2)
    assert (_stats()["misses"], _stats()["hits"], _stats()["stale"]) == (1 + 3, 5 + 3, 0)
    assert _stats()["bytes"] == 4 * (2 * 10 + 6 + 1) + 3 * 4 * 10


@pytest.mark.parametrize("part", ["crow", "col"])
@pytest.mark.parametrize("how", ["in place", "data", "numpy"])
def test_a_changed_graph_is_sorted_anew(part: str, how: str) -> None:
    crow, col = torch.tensor([0, 3, 3, 8]), torch.tensor([0, 1, 2, 3, 4, 0, 1, 2])
    matrix = unchecked(crow, col, torch.randn(8), (3, 5))
    _check(matrix)
    changed, place, value = (crow, 1, 2) if part == "crow" else (col, 6, 4)
    if how == "in place":
        changed[place] = value
    elif how == "data":
        changed.data[place] = value
    else:
        changed.numpy()[place] = value
    _check(matrix)
    assert (_stats()["misses"], _stats()["hits"], _stats()["stale"]) == (4, 0, 1)
    assert _stats()["size"] == 2


@pytest.mark.parametrize("how", ["in place", "data", "numpy"])
def test_changed_values_are_put_in_order_anew(how: str) -> None:
    values = torch.randn(8)
    crow, col = torch.tensor([0, 3, 3, 8]), torch.tensor([0, 1, 2, 3, 4, 0, 1, 2])
    matrix = unchecked(crow, col, values, (3, 5))
    _check(matrix)
    if how == "in place":
        values[3] = 7.0
    elif how == "data":
        values.data[3] = 7.0
    else:
        values.numpy()[3] = 7.0
    _check(matrix)
    assert (_stats()["misses"], _stats()["hits"], _stats()["stale"]) == (3, 1, 1)


def test_learned_values_are_not_kept() -> None:
    matrix = csr(torch.tensor([3, 0, 5, 2]), 6).requires_grad_()
    x = torch.randn(6, 3, requires_grad=True)
    torch.autograd.grad(torch.sparse.mm(matrix, x, "mean").sum(), [matrix, x])
    assert _stats()["size"] == 1


def test_another_number_of_columns_is_another_graph() -> None:
    crow, col, values = torch.tensor([0, 2, 3]), torch.tensor([0, 1, 1]), torch.randn(3)
    _check(unchecked(crow, col, values, (2, 2)))
    _check(unchecked(crow, col, values, (2, 7)))
    assert (_stats()["misses"], _stats()["hits"], _stats()["size"]) == (4, 0, 4)


def test_graphs_that_are_gone_are_dropped() -> None:
    for seed in range(5):
        _check(csr(torch.tensor([3, 0, 5, 2]), 6, seed=seed))
    assert _stats()["size"] == 2
    assert _stats()["evictions"] == 0


def test_it_is_bounded() -> None:
    from cpuaccel import config

    with setting("index_cache_mib", 1):
        kept = [csr(torch.full((1000,), 50), 100, seed=seed) for seed in range(4)]
        for matrix in kept:
            _check(matrix)
        assert _stats()["capacity"] == 1 << 20
        assert _stats()["bytes"] <= 1 << 20
        assert _stats()["evictions"] > 0
        config.set("index_cache_mib", 0)
        _check(kept[0])
        assert _stats()["size"] == 0


def test_inference_tensors_are_not_kept() -> None:
    with torch.inference_mode():
        matrix = csr(torch.tensor([3, 0, 5, 2]), 6)
        x = torch.randn(4, 2)
        got = matrix.t() @ x
        torch.testing.assert_close(got.double(), dense(matrix).t() @ x.double(), rtol=1e-5, atol=0)
    assert _stats()["size"] == 0
    other = csr(torch.tensor([3, 0, 5, 2]), 6)
    transposed = other.t()
    with torch.inference_mode():
        _ = transposed @ x
    _check(other)
    assert _stats()["hits"] == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os has no fork on this system")
def test_a_forked_child_uses_it() -> None:
    """In a process of its own: torch allows no backward pass in a child of one with GPU threads."""
    run_python(_FORKS)


_FORKS = """
import os, traceback, torch, cpuaccel

torch.set_num_threads(1)
matrix = torch.eye(6).to_sparse_csr()

def hits():
    needs = torch.randn(6, 3, requires_grad=True)
    (grad,) = torch.autograd.grad(torch.sparse.mm(matrix, needs, "sum").sum(), needs)
    assert torch.equal(grad, torch.ones(6, 3))
    return cpuaccel.stats()["index_cache"]["hits"]

before = hits()
child = os.fork()
if child == 0:
    status = 1
    try:
        status = 0 if hits() == before + 2 else 2
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(status)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
"""
