"""Cases of whole layers: torch_geometric's, plain and accelerated, and prepacked ones."""

import copy
import importlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import _plugin
from benchmarks._timing import Runner
from benchmarks.ops.never_slower._case import Case, integers, numbers

# Nodes, edges, features in and out.
_GRAPHS = ((10, 20, 8), (30, 100, 16), (30, 100, 64), (200, 1000, 32), (2000, 10_000, 64))
_RELATIONS = 3
_HEADS = 2


def _pyg(name: str) -> Any:
    return getattr(importlib.import_module("torch_geometric.nn"), name)


def _mlp(*widths: int) -> nn.Module:
    first, second, third = widths
    return nn.Sequential(nn.Linear(first, second), nn.ReLU(), nn.Linear(second, third))


def _pna(K: int) -> nn.Module:
    made: nn.Module = _pyg("PNAConv")(
        *(K, K, ["mean", "max", "std"], ["identity", "amplification"]), deg=torch.arange(1, 9)
    )
    return made


_LAYERS: dict[str, Callable[[int], nn.Module]] = {
    "GCNConv": lambda K: _pyg("GCNConv")(K, K),
    "SAGEConv mean": lambda K: _pyg("SAGEConv")(K, K),
    "SAGEConv max": lambda K: _pyg("SAGEConv")(K, K, aggr="max"),
    "GINConv": lambda K: _pyg("GINConv")(_mlp(K, K, K)),
    "GraphConv": lambda K: _pyg("GraphConv")(K, K),
    "GATConv": lambda K: _pyg("GATConv")(K, K // _HEADS, heads=_HEADS),
    "GATv2Conv": lambda K: _pyg("GATv2Conv")(K, K // _HEADS, heads=_HEADS),
    "PNAConv": _pna,
    "RGCNConv": lambda K: _pyg("RGCNConv")(K, K, _RELATIONS),
    "EdgeConv max": lambda K: _pyg("EdgeConv")(nn.Sequential(nn.Linear(2 * K, K), nn.ReLU())),
    "EdgeConv MLP": lambda K: _pyg("EdgeConv")(_mlp(2 * K, K, K)),
}

# Rows, in, out.
_LINEARS = ((1, 16, 16), (1, 768, 768), (16, 768, 3072), (128, 768, 768))


def cases() -> Iterator[Case]:
    """All cases of this file; those of torch_geometric only if it is installed."""
    if importlib.util.find_spec("torch_geometric") is not None:
        for name, layer in _LAYERS.items():
            for graph in _GRAPHS:
                for fresh in (False, True):
                    yield _graph_case(name, layer, graph, learns=False, fresh=fresh)
                yield _graph_case(name, layer, graph, learns=True, fresh=False)
    for shape in _LINEARS:
        yield _prepacked(shape)


def _graph_case(
    name: str, layer: Callable[[int], nn.Module], graph: tuple[int, ...], learns: bool, fresh: bool
) -> Case:
    N, E, K = graph
    label = f"{N} nodes, {E} edges, {K} features"
    label += ", forward and backward" if learns else ", a new graph each call" if fresh else ""
    make = partial(_graph_call, layer, graph, learns, fresh)
    return Case(name, "", label, make, partial(make, accelerate=True))


def _graph_call(
    layer: Callable[[int], nn.Module],
    graph: tuple[int, ...],
    learns: bool,
    fresh: bool,
    accelerate: bool = False,
) -> Runner:
    N, E, K = graph
    torch.manual_seed(0)
    made: Any = layer(K)
    if accelerate:
        made = _plugin.accelerate(made)
    x = numbers(N, K).requires_grad_(learns)
    edges = integers(2 * E, N).view(2, E)
    kinds = integers(E, _RELATIONS, seed=5)
    extra = (kinds,) if type(made).__name__ == "RGCNConv" else ()

    def forward() -> Tensor:
        result: Tensor = made(x, edges.clone() if fresh else edges, *extra)
        return result

    def both() -> object:
        with torch.enable_grad():
            result = forward()
            return torch.autograd.grad(result.sum(), [x, *made.parameters()])

    return both if learns else forward


def _prepacked(shape: tuple[int, ...]) -> Case:
    M, K, N = shape
    layer = nn.Linear(K, N).eval()

    def fast() -> Runner:
        packed = copy.deepcopy(layer)
        _plugin.prepack(packed)
        return partial(packed, numbers(M, K))

    label = f"f32 {M}x{K}x{N}"
    return Case("prepacked Linear", "", label, lambda: partial(layer, numbers(M, K)), fast)
