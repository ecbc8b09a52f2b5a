"""Accelerated layers and cpuaccel.gnn under torch.func, in forward mode, and derived twice."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from _transforms import (
    WAYS,
    Function,
    check_way,
    finite_difference,
    forward_ad,
    weights_like,
)
from quant._engine import counted, needs_plugin, off
from torch import Tensor, nn

from gnn._accelerated import fell_back

pytestmark = [
    needs_plugin,
    pytest.mark.filterwarnings("ignore:There is a performance drop", "ignore:index_reduce"),
]

gnn = pytest.importorskip("cpuaccel.gnn")
pyg = pytest.importorskip("torch_geometric.nn", exc_type=ImportError)

_NODES, _FEATURES, _EDGES = 6, 4, 14
_TWICE = 2 * _FEATURES
_DEGREES = torch.ones(9, dtype=torch.long)


def _mlp(*others: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(_TWICE, 3), *others)


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "GCN": lambda: pyg.GCNConv(_FEATURES, 3),
    "GCN mean": lambda: pyg.GCNConv(_FEATURES, 3, aggr="mean", improved=True),
    "GCN max": lambda: pyg.GCNConv(_FEATURES, 3, aggr="max"),
    "SAGE mean": lambda: pyg.SAGEConv(_FEATURES, 3),
    "SAGE max": lambda: pyg.SAGEConv(_FEATURES, 3, aggr="max"),
    "SAGE min": lambda: pyg.SAGEConv(_FEATURES, 3, aggr="min", normalize=True),
    "GIN": lambda: pyg.GINConv(nn.Sequential(nn.Linear(_FEATURES, 3), nn.Tanh())),
    "Graph": lambda: pyg.GraphConv(_FEATURES, 3),
    "Graph max": lambda: pyg.GraphConv(_FEATURES, 3, aggr="max"),
    "GAT": lambda: pyg.GATConv(_FEATURES, 3, heads=2, residual=True),
    "GAT one head": lambda: pyg.GATConv(_FEATURES, 3, add_self_loops=False),
    "GATv2": lambda: pyg.GATv2Conv(_FEATURES, 3, heads=2),
    "GATv2 shared": lambda: pyg.GATv2Conv(_FEATURES, 3, share_weights=True, concat=False),
    "PNA": lambda: pyg.PNAConv(
        _FEATURES, 4, ["mean", "std", "max", "min", "var"], ["identity", "linear"], _DEGREES
    ),
    "PNA deep": lambda: pyg.PNAConv(
        _FEATURES, 4, ["sum", "max"], ["identity"], _DEGREES, towers=2, pre_layers=2
    ),
    "RGCN": lambda: pyg.RGCNConv(_FEATURES, 3, 2),
    "RGCN max": lambda: pyg.RGCNConv(_FEATURES, 3, 2, aggr="max"),
    "Edge max": lambda: pyg.EdgeConv(_mlp(nn.ReLU())),
    "Edge mean": lambda: pyg.EdgeConv(nn.Linear(_TWICE, 3), aggr="mean"),
    "Edge deep": lambda: pyg.EdgeConv(_mlp(nn.Tanh(), nn.Linear(3, 3)), aggr="add"),
}
layers = pytest.mark.parametrize("name", LAYERS)
ways = pytest.mark.parametrize("way", WAYS)
# These are slow, and a layer cannot distinguish them from the others.
_SLOW = ("vjp", "vmap", "make_fx of grad", "functionalize of grad")
ways_of_layers = pytest.mark.parametrize("way", [way for way in WAYS if way not in _SLOW])


def _graph(name: str) -> tuple[Any, ...]:
    edge_index = torch.randint(0, _NODES, (2, _EDGES))
    edge_index[:, 0] = 2
    return (edge_index, torch.arange(_EDGES) % 2) if name.startswith("RGCN") else (edge_index,)


def _both(name: str) -> tuple[Any, Any]:
    plain = LAYERS[name]().double()
    fast = gnn.accelerate(copy.deepcopy(plain))
    assert type(fast) is not type(plain)
    return plain, fast


def _features() -> Tensor:
    return torch.randn(_NODES, _FEATURES, dtype=torch.float64)


@layers
@ways_of_layers
def test_layers_by_features(name: str, way: str) -> None:
    plain, fast = _both(name)
    graph = _graph(name)
    check_way(way, lambda x: fast(x, *graph), lambda x: plain(x, *graph), _features())


@layers
def test_layers_by_parameters(name: str) -> None:
    plain, fast = _both(name)
    graph, x = _graph(name), _features()
    parameters = dict(plain.named_parameters())
    directions = {key: torch.randn_like(value) for key, value in parameters.items()}

    def run(layer: Any) -> Callable[[dict[str, Tensor]], Tensor]:
        def loss(given: dict[str, Tensor]) -> Tensor:
            y: Tensor = torch.func.functional_call(layer, given, (x, *graph))
            return (y * weights_like(y)).sum()

        return loss

    for transform in (torch.func.grad, torch.func.jacrev):
        torch.testing.assert_close(
            transform(run(fast))(parameters), transform(run(plain))(parameters)
        )
    found, expected = (
        torch.func.jvp(run(layer), (parameters,), (directions,))[1] for layer in (fast, plain)
    )
    torch.testing.assert_close(found, expected)
    assert expected.item() != 0
    with forward_ad.dual_level():
        duals = {k: forward_ad.make_dual(v, directions[k]) for k, v in parameters.items()}
        tangent = forward_ad.unpack_dual(run(fast)(duals)).tangent
    torch.testing.assert_close(tangent, expected)


@layers
def test_second_derivatives_by_features_and_parameters(name: str) -> None:
    plain, fast = _both(name)
    graph, x = _graph(name), _features()

    def second(layer: Any) -> list[Tensor]:
        needs = [x.clone().requires_grad_(), *layer.parameters()]
        y = layer(needs[0], *graph)
        grads = torch.autograd.grad((y * weights_like(y)).sum(), needs, create_graph=True)
        total = torch.stack([(g * weights_like(g)).sum() for g in grads]).sum()
        found = torch.autograd.grad(total, needs, allow_unused=True)
        return [torch.zeros_like(n) if g is None else g for n, g in zip(needs, found, strict=True)]

    with counted() as counts:
        found = second(fast)
    assert not fell_back(counts.fallbacks)
    for ours, theirs in zip(found, second(plain), strict=True):
        torch.testing.assert_close(ours, theirs)


def _of_reduce(reduce: str, weighted: bool) -> Callable[[Tensor], Function]:
    def at(edge_index: Tensor) -> Function:
        weight = torch.linspace(0.5, 2, _EDGES, dtype=torch.float64) if weighted else None
        return lambda x: gnn.gather_scale_reduce(
            x, edge_index, None if weight is None else weight * x.mean().exp(), _NODES, reduce
        )

    return at


def _gat(edge_index: Tensor) -> Function:
    def function(x: Tensor) -> Tensor:
        heads = torch.unflatten(x, 1, (2, 2))
        result: Tensor = gnn.gat_attention(heads, heads.sum(2), heads.sin().sum(2), edge_index)
        return result

    return function


def _gatv2(edge_index: Tensor) -> Function:
    def function(x: Tensor) -> Tensor:
        heads = torch.unflatten(x, 1, (2, 2))
        result: Tensor = gnn.gatv2_attention(heads, heads, heads.mean(0), edge_index)
        return result

    return function


FUNCTIONS: dict[str, Callable[[Tensor], Function]] = {
    **{f"reduce {r}": _of_reduce(r, False) for r in ("sum", "mean", "amax", "amin")},
    **{f"reduce {r} weighted": _of_reduce(r, True) for r in ("sum", "mean", "amax", "amin")},
    "spmm": lambda edge_index: lambda x: gnn.spmm(edge_index, x, "mean"),
    "edge_softmax": lambda edge_index: (
        lambda x: gnn.edge_softmax(x[edge_index[0]] * x[edge_index[1]], edge_index, _NODES)
    ),
    "gat_attention": _gat,
    "gatv2_attention": _gatv2,
}
functions = pytest.mark.parametrize("name", FUNCTIONS)


@functions
@ways
def test_functions(name: str, way: str) -> None:
    function = FUNCTIONS[name](torch.randint(0, _NODES, (2, _EDGES)))

    def plain(x: Tensor) -> Tensor:
        with off():
            return function(x)

    x = _features()
    check_way(way, function, plain, x)
    if way in ("jvp", "forward_ad"):
        torch.testing.assert_close(WAYS[way](function, x), finite_difference(function, x))


@functions
def test_second_derivatives_of_functions(name: str) -> None:
    function = FUNCTIONS[name](torch.randint(0, _NODES, (2, _EDGES)))
    assert torch.autograd.gradgradcheck(function, _features().requires_grad_())


@pytest.mark.parametrize("name", ["GCN", "SAGE max", "GAT", "GATv2"])
def test_compiled_layers(name: str) -> None:
    plain, fast = _both(name)
    graph = _graph(name)

    def derivatives(layer: Any) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        def call(x: Tensor) -> tuple[Tensor, Tensor]:
            run: Function = lambda z: layer(z, *graph)  # noqa: E731
            return WAYS["jvp"](run, x), WAYS["grad"](run, x)

        return call

    x = _features()
    found = torch.compile(derivatives(fast), backend="aot_eager")(x)
    torch.testing.assert_close(found, derivatives(plain)(x))
