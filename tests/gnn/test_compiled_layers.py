"""Accelerated layers under torch.compile: no graph breaks, and a graph's cached data is found."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from quant._engine import counted, needs_plugin
from torch import Tensor

import cpuaccel
from gnn._steps import EDGES, FEATURES, LAYERS, NODES, Step, grads, graph

pytestmark = needs_plugin

gnn = pytest.importorskip("cpuaccel.gnn")


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_accelerated_layers_are_traced_whole(pyg: Any, name: str, dynamic: bool) -> None:
    layer = LAYERS[name](pyg.nn)
    plain, fast = Step(copy.deepcopy(layer)), gnn.accelerate(Step(layer))
    x, edge_index = graph()
    torch._dynamo.reset()
    compiled = torch.compile(fast, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    cpuaccel.clear_caches()
    for _ in range(2):
        plain.zero_grad()
        fast.zero_grad()
        expected = plain(x, edge_index)
        expected.backward()
        with counted() as counts:
            loss = compiled(x, edge_index)
            loss.backward()
        torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(grads(fast), grads(plain), rtol=1e-4, atol=1e-5)
    # Forward and backward of the second step used the cached order of the first.
    assert "sort_edges.cpuaccel" not in counts.calls
    assert any(name.startswith("edge_") for name in counts.calls)


def test_weights_of_edges_are_traced(pyg: Any) -> None:
    x, edge_index = graph()
    edge_index[:, :5] = torch.arange(5)
    for make in (LAYERS["Graph"], LAYERS["GCN"]):
        layer = make(pyg.nn)
        plain, fast = Step(copy.deepcopy(layer)), gnn.accelerate(Step(layer))
        torch._dynamo.reset()
        compiled = torch.compile(fast, backend="aot_eager", fullgraph=True)
        learns = "Graph" in type(layer).__name__
        weights = [torch.linspace(0.1, 1, EDGES, requires_grad=learns) for _ in range(2)]
        for model, weight in zip((plain, compiled), weights, strict=True):
            model(x, edge_index, weight).backward()
        torch.testing.assert_close(grads(fast), grads(plain), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(weights[0].grad, weights[1].grad, rtol=1e-4, atol=1e-5)


def test_dropout_of_compiled_attention(pyg: Any) -> None:
    x, edge_index = graph()
    ones = torch.ones(NODES, 1, 1)
    scores = torch.zeros(NODES, 1)

    def attend(x: Tensor) -> Tensor:
        return gnn.gat_attention(x, scores, scores, edge_index, dropout=0.5)

    compiled = torch.compile(attend, backend="aot_eager", fullgraph=True)
    degrees = torch.zeros(NODES).index_add(0, edge_index[1], torch.ones(EDGES))
    # Each sum consists of weights that are 0 or 2 / degree.
    terms = compiled(ones).flatten() * degrees / 2
    torch.testing.assert_close(terms, terms.round(), rtol=0, atol=1e-4)
    assert 0.3 < float(terms.sum() / EDGES) < 0.7
    del x


def test_the_switch_is_a_guard_of_accelerated_layers(pyg: Any) -> None:
    layer = gnn.accelerate(pyg.nn.SAGEConv(FEATURES, 4))
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend="aot_eager")
    x, edge_index = graph()
    for on in (True, False, True):
        with cpuaccel.enabled(on), counted() as counts:
            compiled(x, edge_index)
        assert ("edge_sum.cpuaccel" in counts.calls) == on


# The ops


def _arguments() -> dict[str, tuple[Any, ...]]:
    """float64 arguments for gradcheck."""
    edge_index = torch.randint(0, 6, (2, 11))
    edge_index[:, 0] = 3

    def made(*sizes: int) -> Tensor:
        return torch.randn(*sizes, dtype=torch.float64, requires_grad=True)

    x, scores, weight = made(6, 2, 3), made(6, 2), made(11)
    kept = torch.rand(17, 2, dtype=torch.float64)
    rows = made(6, 4)
    return {
        "edge_values": (made(11, 2), edge_index, 6, 6),
        "edge_values back": (weight, edge_index, 6, 6, True),
        "gcn_sum": (rows, edge_index, None, True, 1.0),
        "gcn_sum weighted": (rows, edge_index, weight.detach().abs(), False, 1.0, True, True),
        "gat_sum": (x, scores, made(6, 2), edge_index, True, 0.2, kept),
        "gat_sum one head": (made(6, 1, 3), made(6, 1), made(6, 1), edge_index, False, 0.2),
        "gatv2_sum": (x, made(6, 2, 3), made(2, 3), edge_index, True, 0.2, kept),
        "edge_sum": (rows, edge_index, weight, 6),
        "edge_dot": (rows, made(6, 4), edge_index),
        "edge_extreme": (rows, edge_index, weight, 6),
    }


@pytest.mark.parametrize("name", _arguments())
def test_opcheck(name: str) -> None:
    op = getattr(torch.ops.cpuaccel, name.split()[0]).default
    torch.library.opcheck(op, _arguments()[name])


@pytest.mark.parametrize("name", ["gat_sum", "gatv2_sum"])
def test_opcheck_of_gradients(name: str) -> None:
    *tensors, loops, slope, kept = _arguments()[name]
    tensors = [tensor.detach() for tensor in tensors]
    out, alpha = getattr(torch.ops.cpuaccel, name)(*tensors, loops, slope, kept)
    op = getattr(torch.ops.cpuaccel, f"{name}_backward").default
    torch.library.opcheck(op, (out, *tensors, alpha, loops, slope, kept))


@pytest.mark.parametrize("name", _arguments())
def test_gradients(name: str) -> None:
    op = getattr(torch.ops.cpuaccel, name.split()[0])
    inputs = _arguments()[name]

    def first(*given: Any) -> Tensor:
        result = op(*given)
        return result[0] if isinstance(result, tuple) else result

    assert torch.autograd.gradcheck(first, inputs, fast_mode=True)
