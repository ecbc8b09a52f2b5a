"""Accelerated EdgeConv on features that are large beside their differences, as coordinates are.

Errors are compared with those of torch_geometric's own layer, both against float64.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from quant._engine import counted, needs_plugin
from torch import Tensor, nn

pytestmark = needs_plugin

gnn = pytest.importorskip("cpuaccel.gnn")
pyg = pytest.importorskip("torch_geometric.nn", exc_type=ImportError)

_NODES, _EDGES, _FEATURES = 240, 2400, 3
_GROUPS = 4
Data = tuple[Tensor, Tensor]


def _within_groups() -> Tensor:
    """Edges between nodes whose numbers are equal modulo `_GROUPS`."""
    edge_index = torch.randint(0, _NODES, (2, _EDGES))
    return edge_index - edge_index % _GROUPS + torch.randint(0, _GROUPS, (_EDGES,))


def _normal() -> Data:
    return torch.randn(_NODES, _FEATURES), torch.randint(0, _NODES, (2, _EDGES))


def _offset() -> Data:
    x, edge_index = _normal()
    return x + 5e5, edge_index


def _one_feature() -> Data:
    x, edge_index = _normal()
    x[:, 1] += 5e5
    return x, edge_index


def _clusters() -> Data:
    centers = torch.tensor([0.0, 5e5, -3e5, 1e6])[torch.arange(_NODES) % _GROUPS]
    return torch.randn(_NODES, _FEATURES) + centers[:, None], _within_groups()


def _clusters_with_edges_between() -> Data:
    x, edge_index = _clusters()
    edge_index[:, :5] = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    return x, edge_index


def _a_small_far_cluster() -> Data:
    x, edge_index = _normal()
    far = torch.tensor([7, 11, 19])
    x[far] += 5e5
    edge_index[:, torch.isin(edge_index, far).any(0)] = 3
    edge_index[:, :6] = torch.tensor([[7, 11, 19, 11, 19, 7], [11, 19, 7, 7, 11, 19]])
    return x, edge_index


def _loops_alone() -> Data:
    x, edge_index = _normal()
    x[50:60] += 5e5
    edge_index[:, torch.isin(edge_index, torch.arange(50, 60)).any(0)] = 3
    edge_index[:, :10] = torch.arange(50, 60)
    return x, edge_index


def _a_constant_feature() -> Data:
    x, edge_index = _normal()
    x[:, 2] = 1
    return x, edge_index


_DATA: dict[str, Callable[[], Data]] = {
    "normal": _normal,
    "offset": _offset,
    "one feature": _one_feature,
    "clusters": _clusters,
    "clusters with edges between": _clusters_with_edges_between,
    "a small far cluster": _a_small_far_cluster,
    "loops alone": _loops_alone,
    "a constant feature": _a_constant_feature,
}
data = pytest.mark.parametrize("kind", _DATA)
aggregations = pytest.mark.parametrize("aggr", ["max", "add", "mean"])


def _layer(layers: int, aggr: str, absolute: bool) -> Any:
    network: nn.Module = nn.Linear(2 * _FEATURES, 16)
    if layers == 2:
        network = nn.Sequential(network, nn.ReLU(), nn.Linear(16, 8))
    layer = pyg.EdgeConv(network, aggr=aggr)
    first: Any = network if layers == 1 else layer.nn[0]
    if not absolute:
        first.weight.data[:, :_FEATURES] = 0
    return layer


def _results(layer: Any, x: Tensor, edge_index: Tensor, dtype: torch.dtype) -> list[Tensor]:
    """The output, and the gradients of x and of each parameter."""
    x = x.to(dtype).requires_grad_()
    out = layer.to(dtype)(x, edge_index)
    # All terms have one sign, so that sums of gradients do not cancel in torch either.
    grad = torch.linspace(0.5, 1.5, out.numel(), dtype=torch.float64).reshape(out.shape).to(dtype)
    found = torch.autograd.grad(out, [x, *layer.parameters()], grad)
    return [each.detach().double() for each in (out, *found)]


@data
@aggregations
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("absolute", [False, True], ids=["differences alone", "both"])
@pytest.mark.parametrize("seed", range(2))
def test_errors_are_those_of_torch(
    kind: str, aggr: str, layers: int, absolute: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    x, edge_index = _DATA[kind]()
    plain = _layer(layers, aggr, absolute)
    fast = gnn.accelerate(copy.deepcopy(plain))
    theirs = _results(plain, x, edge_index, torch.float32)
    ours = _results(fast, x, edge_index, torch.float32)
    exact = _results(copy.deepcopy(plain), x, edge_index, torch.float64)
    if aggr == "max" and absolute:
        # Rounding decides which of nearly equal messages is the largest, in torch too.
        ours, theirs, exact = ours[:1], theirs[:1], exact[:1]
    for mine, other, right in zip(ours, theirs, exact, strict=True):
        scale = (right - right.mean(0)).abs().max() + 1e-30
        error, their_error = (mine - right).abs().max(), (other - right).abs().max()
        assert error <= 6 * their_error + 4e-6 * scale


@pytest.mark.parametrize("kind", ["offset", "clusters"])
def test_float64_falls_back(kind: str) -> None:
    torch.manual_seed(0)
    x, edge_index = _DATA[kind]()
    plain = _layer(1, "max", absolute=False).double()
    fast = gnn.accelerate(copy.deepcopy(plain))
    with counted() as counts:
        got = fast(x.double(), edge_index)
    assert torch.equal(got, plain(x.double(), edge_index))
    reason = "features are far larger than their differences, or not finite"
    assert counts.fallbacks[f"gnn.EdgeConv: {reason}"] == 1


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("aggr", ["max", "add", "mean"])
@pytest.mark.parametrize("has_edges", [True, False])
def test_numbers_that_are_not_finite(bad: float, aggr: str, has_edges: bool) -> None:
    torch.manual_seed(0)
    x, edge_index = _normal()
    x[9, 1] = bad
    if not has_edges:
        edge_index[:, (edge_index == 9).any(0)] = 3
    plain = _layer(1, aggr, absolute=True)
    fast = gnn.accelerate(copy.deepcopy(plain))
    expected = plain(x, edge_index)
    torch.testing.assert_close(fast(x, edge_index), expected, equal_nan=True)


def test_usual_features_stay_in_float32() -> None:
    torch.manual_seed(0)
    x, edge_index = _normal()
    edge_index[:, :20] = torch.arange(20)  # some self-loops
    x[40:60] = 0
    ratios = torch.ops.cpuaccel.edge_contrast(
        x, x, gnn._edges.sorted_edges(edge_index, _NODES, _NODES), *torch.ones(2, _FEATURES), 16.0
    )
    assert ratios[0] <= 16
    assert ratios[1] <= 16


def test_ratios_of_a_small_graph() -> None:
    x = torch.tensor([[3.0, -1.0], [3.5, -1.0], [100.0, 0.0], [0.0, 0.0]])
    edge_index = torch.tensor([[1, 0, 2, 2], [0, 1, 2, 3]])
    edges = gnn._edges.sorted_edges(edge_index, 4, 4)
    contrast = torch.ops.cpuaccel.edge_contrast
    weights = torch.tensor([2.0, 1.0]), torch.tensor([1.0, 4.0])
    # Nodes 0 and 1: 7 / 1 and 8 / 1. Node 2 has only a self-loop: 200 / 100. Node 3 is 0.
    nodes, features = contrast(x, x, edges, *weights, 1.0)
    assert nodes == 8
    # Sizes 106.5 and 2, differences 101 and none: the mean of both, 50.5.
    assert features == pytest.approx(106.5 / 101)
    assert contrast(x, x, edges, *weights, 10.0)[0] == 2


def test_edges_of_other_graphs_are_an_error() -> None:
    x = torch.randn(4, 2)
    edges = gnn._edges.sorted_edges(torch.tensor([[3, 0], [0, 1]]), 4, 4)
    for bad in (edges.clone().fill_(7), edges.clone().fill_(-1), edges[:-1]):
        with pytest.raises(RuntimeError, match="edge_contrast"):
            torch.ops.cpuaccel.edge_contrast(x, x, bad, *torch.ones(2, 2), 16.0)
