"""Tensors that a graph computes from numbers alone are made once, unless they can be mutated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cpuaccel
from compile._compiled import Net, needs_onednn
from cpuaccel.compile.capture.capture import graph_of

pytestmark = needs_onednn

_MADE = ("arange", "zeros", "ones", "full", "eye", "scalar_tensor")


def _net(forward: Callable[..., Any]) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    net = Net(forward, linear=nn.Linear(8, 8), table=nn.Embedding(16, 8))
    return net.eval(), torch.randn(4, 8)


def _made_in_calls(net: nn.Module, x: Tensor) -> list[str]:
    """Return the names of ops by which a capture of `net` makes tensors from numbers."""
    graph, *_ = graph_of(net, (x,), {})
    nodes = [each for each in graph.graph.nodes if each.op == "call_function"]
    names = [each.target.__name__.split(".")[0] for each in nodes]
    return [name for name in names if name in _MADE]


def _positions(self: Any, x: Tensor) -> Tensor:
    return self.linear(x) + self.table(torch.arange(4))


def _masked(self: Any, x: Tensor) -> Tensor:
    rows = torch.arange(4)
    mask = torch.where(rows[:, None] >= rows[None], 0.0, -1e9)
    return torch.softmax(self.linear(x) @ x.mT + mask, -1) @ x


FOLDED: dict[str, Callable[..., Tensor]] = {
    "positions": _positions,
    "mask": _masked,
    "ones by a number": lambda self, x: self.linear(x) * (torch.ones(8) * 3).expand(4, 8),
}


@pytest.mark.parametrize("forward", FOLDED.values(), ids=FOLDED)
def test_made_once(forward: Callable[..., Tensor], tmp_path: Path) -> None:
    net, x = _net(forward)
    assert not _made_in_calls(net, x)
    with torch.no_grad():
        optimized = cpuaccel.optimize(net, (x,))
        expected = net(x)
        torch.testing.assert_close(optimized(x), expected)
        cpuaccel.save(optimized, tmp_path / "net.pt2")
        torch.testing.assert_close(cpuaccel.load(tmp_path / "net.pt2")(x), expected)


RETURNED: dict[str, Callable[..., Any]] = {
    "itself": lambda self, x: (self.linear(x), torch.arange(4)),
    "a view": lambda self, x: (self.linear(x), torch.zeros(6).view(2, 3)),
    "perhaps a view": lambda self, x: (self.linear(x), torch.ones(6).reshape(2, 3).contiguous()),
    "part of it": lambda self, x: (self.linear(x), torch.zeros(6).split(3)[1]),
}


@pytest.mark.parametrize("forward", RETURNED.values(), ids=RETURNED)
def test_returned_tensors_are_new_in_each_call(forward: Callable[..., Any]) -> None:
    net, x = _net(forward)
    with torch.no_grad():
        optimized = cpuaccel.optimize(net, (x,))
        _, expected = net(x)
        for _ in range(2):
            _, returned = optimized(x)
            assert torch.equal(returned, expected)
            returned.add_(1)


def test_random_numbers_are_others_in_each_call() -> None:
    net, x = _net(lambda self, x: (self.linear(x), torch.zeros(64).bernoulli(0.5) + 1))
    graph, *_ = graph_of(net, (x,), {})
    first, second = (graph(x)[1] for _ in range(2))
    assert not torch.equal(first, second)


def test_large_tensors_are_not_folded() -> None:
    net, x = _net(lambda self, x: self.linear(x) + torch.arange(1 << 20).sum())
    assert _made_in_calls(net, x) == ["arange"]


def test_a_model_under_grad_has_constants_without() -> None:
    net, x = _net(_positions)
    graph, *_ = graph_of(net, (x,), {})
    assert not any(each.requires_grad for each in graph.buffers())
