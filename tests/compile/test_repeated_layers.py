"""Layers that repeat are traced once: the graph is that of a whole trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule, map_arg

from compile._compiled import needs_onednn
from cpuaccel.compile.capture import capture as captures
from cpuaccel.compile.capture.repeated_layers import RepeatedLayers
from cpuaccel.compile.capture.same_layers import are_same

pytestmark = needs_onednn


class _Block(nn.Module):
    def __init__(self, index: int, step: Callable[[Any, Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.layer_idx = index
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)
        self.step = step

    def forward(self, src: Tensor, scale: Tensor) -> tuple[Tensor, None]:
        if self.step is not None:
            src = self.step(self, src)
        return src + self.down(torch.relu(self.up(self.norm(src) * scale))), None


class _Net(nn.Module):
    def __init__(self, step: Callable[[Any, Tensor], Tensor] | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(8, 8)
        self.layers = nn.ModuleList(_Block(index, step) for index in range(4))

    def forward(self, src: Tensor) -> Tensor:
        scale = src.mean(-1, keepdim=True)
        src = self.first(src)
        for layer in self.layers:
            src, _ = layer(src, scale)
        return src


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of layers that each trace has copied."""
    found: list[int] = []
    paste = RepeatedLayers.paste

    def counted(self: Any, graph: Any) -> None:
        paste(self, graph)
        found.append(len(self._copies))

    monkeypatch.setattr(RepeatedLayers, "paste", counted)
    return found


def _whole(
    monkeypatch: pytest.MonkeyPatch, model: nn.Module, args: Any, dynamic: Any = ()
) -> GraphModule:
    with monkeypatch.context() as patched:
        patched.setattr(RepeatedLayers, "mark", lambda self, model: None)
        return captures.graph_of(model, args, {}, dynamic)[0]


def _nodes(captured: GraphModule) -> list[Any]:
    numbers = {node: number for number, node in enumerate(captured.graph.nodes)}
    return [
        (
            *(node.op, str(node.target), map_arg(node.args, numbers.__getitem__), node.kwargs),
            str(getattr(node.meta.get("val"), "shape", "")),
        )
        for node in captured.graph.nodes
    ]


@pytest.mark.parametrize("dynamic", [(), ((0, 0),)], ids=["fixed", "symbolic"])
def test_the_graph_is_that_of_a_whole_trace(
    monkeypatch: pytest.MonkeyPatch, traced: list[int], dynamic: Any
) -> None:
    model, args = _Net().eval(), (torch.randn(3, 5, 8),)
    found = captures.graph_of(model, args, {}, dynamic)[0]
    assert traced == [3]
    assert _nodes(found) == _nodes(_whole(monkeypatch, model, args, dynamic))
    with torch.no_grad():
        torch.testing.assert_close(found(*args), model(*args))


def _by_index(layer: Any, src: Tensor) -> Tensor:
    return src * 2 if layer.layer_idx == 2 else src


def _scaled_by_index(layer: Any, src: Tensor) -> Tensor:
    scaled: Tensor = src * layer.layer_idx
    return scaled


def _in_place(layer: Any, src: Tensor) -> Tensor:
    added: Tensor = src.add_(1)
    return added


@pytest.mark.parametrize("step", [_by_index, _scaled_by_index, _in_place])
def test_layers_that_differ_are_all_traced(traced: list[int], step: Any) -> None:
    model, args = _Net(step).eval(), (torch.randn(3, 5, 8),)
    found = captures.graph_of(model, args, {})[0]
    assert not any(traced)
    with torch.no_grad():
        torch.testing.assert_close(found(*args), model(*args))


def _shares_a_weight(model: Any) -> None:
    model.layers[2].up.weight = model.layers[1].up.weight


def _has_other_sizes(model: Any) -> None:
    model.layers[2].up, model.layers[2].down = nn.Linear(8, 4), nn.Linear(4, 8)


def _has_another_attribute(model: Any) -> None:
    model.layers[2].norm.eps = 0.5


@pytest.mark.parametrize(
    ("change", "copied"),
    [(_shares_a_weight, 1), (_has_other_sizes, 2), (_has_another_attribute, 2)],
)
def test_a_layer_of_another_kind_is_traced(traced: list[int], change: Any, copied: int) -> None:
    model, args = _Net().eval(), (torch.randn(3, 5, 8),)
    change(model)
    found = captures.graph_of(model, args, {})[0]
    assert traced == [copied]
    with torch.no_grad():
        torch.testing.assert_close(found(*args), model(*args))


def test_tensors_of_layers_correspond() -> None:
    a, b = _Block(0), _Block(1)
    assert are_same(a, b)
    for each in (a, b):
        each.norm.bias = each.norm.weight
    assert are_same(a, b)
    b.norm.bias = nn.Parameter(torch.zeros(8))
    assert not are_same(a, b)
