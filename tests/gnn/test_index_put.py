"""index_put with accumulate, beyond test_scatter_add: shapes, signs, fallbacks."""

from __future__ import annotations

import pytest
import torch
from ops._floats import assert_alike
from quant._engine import counted, needs_plugin, off
from torch import Tensor

from gnn._rows import rows

pytestmark = needs_plugin


def _gradient(x: Tensor, index: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    (x[index] * torch.arange(1.0, 4.0)).sum().backward()
    assert x.grad is not None
    return x.grad


@pytest.mark.parametrize(
    "index",
    [torch.tensor([3, 0, 3, 3]), torch.tensor([-1, 0, 3, -4]), torch.tensor([[0, 1], [1, 3]])],
    ids=["one dimension", "negative", "two dimensions"],
)
def test_the_gradient_of_an_index(index: Tensor) -> None:
    x = rows(4, 3)
    with counted() as counts:
        got = _gradient(x, index)
    assert counts.calls["index_put.cpuaccel"] == 1
    with off():
        assert_alike(got, _gradient(x, index))


@pytest.mark.parametrize(
    ("indices", "values", "accumulate", "why"),
    [
        ((torch.tensor([0, 1]),), torch.ones(2, 3), False, "accumulate=False"),
        ((torch.tensor([0, 1]), torch.tensor([0, 1])), torch.ones(2), True, "unsupported indices"),
        ((torch.tensor([0, 1]),), torch.ones(3), True, "unsupported shape"),
        ((torch.tensor([True, False, True, False]),), torch.ones(2, 3), True, "unsupported shape"),
        ((torch.tensor(1),), torch.ones(3), True, "unsupported shape"),
    ],
    ids=["no accumulate", "two indices", "values spread", "mask", "no dimension"],
)
def test_fallbacks(indices: tuple[Tensor, ...], values: Tensor, accumulate: bool, why: str) -> None:
    x = rows(4, 3)
    with counted() as counts:
        got = x.index_put(indices, values, accumulate)
    assert counts.fallbacks[f"index_put: {why}"] == 1
    with off():
        assert_alike(got, x.index_put(indices, values, accumulate))


@pytest.mark.parametrize("number", [4, -5, 2**31 - 1, -(2**31)])
def test_out_of_range_is_torchs_error(number: int) -> None:
    with pytest.raises(IndexError, match="out of bounds"):
        rows(4, 3).index_put_((torch.tensor([number]),), torch.ones(1, 3), accumulate=True)
