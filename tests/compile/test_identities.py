"""Products by 1, casts to the same dtype and views that exist already are no ops of a capture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cpuaccel
from compile._compiled import Net, needs_onednn
from cpuaccel.compile.capture.capture import graph_of
from cpuaccel.compile.passes import identities

pytestmark = needs_onednn


def _rotary(self: Any, x: Tensor) -> Tensor:
    angle = x[:, :4] * self.linear.weight[0, :4]
    cos, sin = angle.cos() * 1.0, angle.sin() * 1.0
    y = self.linear(x).unflatten(1, (2, 4))
    return torch.relu(self.linear(((y * cos.unsqueeze(1)) + (y * sin.unsqueeze(1))).flatten(1)))


def _ops(forward: Callable[..., Any], x: Tensor) -> list[Any]:
    net = Net(forward, linear=nn.Linear(8, 8)).eval()
    graph, *_ = graph_of(net, (x,), {}, in_place=True)
    with torch.no_grad():
        torch.testing.assert_close(cpuaccel.optimize(net, (x,))(x), net(x), equal_nan=True)
    return [node.target for node in graph.graph.nodes if node.op == "call_function"]


def _by_one(ops: list[Any]) -> int:
    return ops.count(torch.ops.aten.mul.Tensor)


def test_a_product_by_one_is_removed() -> None:
    assert _by_one(_ops(_rotary, torch.randn(3, 8))) <= 1  # the angle


def test_a_quotient_by_one_is_removed() -> None:
    ops = _ops(lambda self, x: self.linear(x.cos() / 1.0).sin(), torch.randn(3, 8))
    assert torch.ops.aten.div.Tensor not in ops


@pytest.mark.parametrize("factor", [2.0, torch.tensor(1.0, dtype=torch.float64)])
def test_other_products_stay(factor: Any) -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        return self.linear(x.cos() * factor).sin()

    x = torch.tensor([[1.0, float("nan"), -0.0, 2.0, 3.0, float("inf"), 5.0, 6.0]])
    _ops(forward, x)


def test_a_result_is_no_alias_of_another() -> None:
    def forward(self: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        y = torch.cos(self.linear(x))
        return y, y * 1.0, y.unsqueeze(1), y.unsqueeze(1)

    net, x = Net(forward, linear=nn.Linear(8, 8)).eval(), torch.randn(3, 8)
    with torch.no_grad():
        fast = cpuaccel.optimize(net, (x,), time_budget=0)
        found, expected = fast(x), net(x)
    for each in (found, expected):
        each[1].zero_()
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    assert found[2].data_ptr() == found[3].data_ptr()


@pytest.mark.parametrize(("like", "ops"), [(torch.float32, 0), (torch.float64, 1)])
def test_a_cast_to_the_same_dtype_is_removed(like: torch.dtype, ops: int) -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        return self.linear(torch.cos(self.linear(x)).type_as(x.to(like)).float())

    net, x = Net(forward, linear=nn.Linear(8, 8)).eval(), torch.randn(3, 8)
    graph = torch.export.export(net, (x,)).graph_module.graph
    found = graph.find_nodes(op="call_function", target=torch.ops.aten.type_as.default)
    assert len(found) == 1
    identities.remove(graph)
    found = graph.find_nodes(op="call_function", target=torch.ops.aten.type_as.default)
    assert len(found) == ops
    with torch.no_grad():
        torch.testing.assert_close(cpuaccel.optimize(net, (x,))(x), net(x))
