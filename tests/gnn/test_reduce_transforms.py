"""scatter_reduce and index_reduce under torch.func and forward mode, also in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from _transforms import WAYS, Function, outcome
from quant._engine import needs_plugin, off
from torch import Tensor

from gnn._rows import spread

pytestmark = needs_plugin

_INDEX = torch.tensor([0, 1, 1, 3, 3, 3])
_OPS: dict[str, Callable[[Tensor, Tensor, str, bool], Tensor]] = {
    "scatter_reduce": lambda x, src, reduce, include: x.scatter_reduce(
        0, spread(_INDEX, src), src, reduce, include_self=include
    ),
    "scatter_reduce_": lambda x, src, reduce, include: x.clone().scatter_reduce_(
        0, spread(_INDEX, src), src, reduce, include_self=include
    ),
    "index_reduce": lambda x, src, reduce, include: x.index_reduce(
        0, _INDEX, src, reduce, include_self=include
    ),
    "index_reduce_": lambda x, src, reduce, include: x.clone().index_reduce_(
        0, _INDEX, src, reduce, include_self=include
    ),
}
_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def _of_source(op: str, reduce: str, include: bool) -> Function:
    def function(src: Tensor) -> Tensor:
        x = torch.linspace(-1, 1, 10, dtype=src.dtype).reshape(5, 2)
        return _OPS[op](x + 0 * src.sum(), src, reduce, include)

    return function


def _into_new(op: str, reduce: str, include: bool) -> Function:
    def function(src: Tensor) -> Tensor:
        made = src.new_zeros(5, 2)
        if op == "scatter_reduce_":
            return made.scatter_reduce_(0, spread(_INDEX, src), src, reduce, include_self=include)
        return made.index_reduce_(0, _INDEX, src, reduce, include_self=include)

    return function


@pytest.mark.filterwarnings("ignore:index_reduce", "ignore:There is a performance drop")
@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("reduce", _REDUCTIONS)
@pytest.mark.parametrize("op", _OPS)
def test_as_torch_has_them(op: str, reduce: str, include: bool) -> None:
    src = torch.randn(6, 2, dtype=torch.float64)
    functions = [_of_source(op, reduce, include)]
    if op.endswith("_"):
        functions.append(_into_new(op, reduce, include))
    for function in functions:
        for way in WAYS:
            _compare(way, function, src)


def _compare(way: str, function: Function, src: Tensor) -> None:
    with off():
        theirs = outcome(lambda: WAYS[way](function, src))
    ours = outcome(lambda: WAYS[way](function, src))
    if isinstance(theirs, type):
        assert ours is theirs, (way, ours)
    else:
        assert isinstance(ours, Tensor), (way, ours)
        torch.testing.assert_close(ours, theirs, msg=way)


def test_sum_into_new_zeros_has_a_gradient_of_ones() -> None:
    index = torch.tensor([[0], [1]])

    def total(z: Tensor) -> Tensor:
        return z.new_zeros(2, 1).scatter_reduce_(0, index, z, "sum").sum()

    assert torch.equal(torch.func.grad(total)(torch.ones(2, 1)), torch.ones(2, 1))


def test_pygs_max_aggregation(pyg: Any) -> None:
    from torch_geometric.nn import MaxAggregation

    x, index = torch.randn(6, 3, dtype=torch.float64), torch.tensor([0, 0, 1, 2, 2, 2])

    def loss(z: Tensor) -> Tensor:
        result: Tensor = MaxAggregation()(z, index, dim_size=4).square().sum()
        return result

    leaf = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(leaf), leaf)
    torch.testing.assert_close(torch.func.grad(loss)(x), expected)
    torch.testing.assert_close(torch.func.jacrev(loss)(x), expected)
    (found,) = torch.func.vmap(torch.func.grad(loss))(x[None])
    torch.testing.assert_close(found, expected)
