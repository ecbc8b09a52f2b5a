"""cpuaccel.gnn.accelerate of RGCNConv."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from quant._engine import counted, needs_plugin
from torch import Tensor, nn

import cpuaccel
from gnn._accelerated import (
    EDGES,
    FEATURES,
    NODES,
    check,
    check_falls_back,
    check_round_trip,
    fell_back,
    graph,
    run,
)

pytestmark = needs_plugin

gnn = pytest.importorskip("cpuaccel.gnn")
pyg = pytest.importorskip("torch_geometric.nn", exc_type=ImportError)

_RELATIONS = 5
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])

OPTIONS: dict[str, dict[str, Any]] = {
    "mean": {},
    "sum": {"aggr": "add"},
    "max": {"aggr": "max"},
    "bases": {"num_bases": 3},
    "blocks": {"num_blocks": 4},
    "plain": {"root_weight": False, "bias": False},
}
options = pytest.mark.parametrize("name", OPTIONS)


def _layer(channels: Any = FEATURES, **changes: Any) -> nn.Module:
    torch.manual_seed(0)
    return pyg.RGCNConv(channels, 8, _RELATIONS, **changes)


def _types(count: int = EDGES) -> Tensor:
    """Relations of edges; the second relation has no edge."""
    kinds = torch.randint(0, _RELATIONS, (count,))
    return torch.where(kinds == 1, 3, kinds)


@options
@dtypes
def test_numbers_and_gradients(name: str, dtype: torch.dtype) -> None:
    check(_layer(**OPTIONS[name]), *graph(), _types(), dtype=dtype)


@options
def test_many_relations(name: str) -> None:
    """More than 4 (relation, node) pairs for each node, so several groups are processed in turn."""
    torch.manual_seed(0)
    layer = pyg.RGCNConv(FEATURES, 8, 40, **OPTIONS[name])
    check(layer, *graph(), torch.randint(0, 40, (EDGES,)))


@options
@dtypes
def test_two_kinds_of_nodes(name: str, dtype: torch.dtype) -> None:
    x, edge_index = graph()
    edge_index[1] %= 30
    pair = (x, torch.randn(30, 12))
    check(_layer((FEATURES, 12), **OPTIONS[name]), pair, edge_index, _types(), dtype=dtype)


@pytest.mark.parametrize("name", ["mean", "sum", "max", "bases"])
@pytest.mark.parametrize("target", ["same", "indices"])
def test_nodes_without_features(name: str, target: str) -> None:
    _, edge_index = graph()
    x: Any = None
    if target == "indices":
        edge_index[1] %= 30
        x = (None, torch.randperm(NODES)[:30])
    check(_layer(NODES, **OPTIONS[name]), x, edge_index, _types())


@pytest.mark.parametrize("count", [0, 1, 30])
def test_few_edges(count: int) -> None:
    x, edge_index = graph()
    check(_layer(), x, edge_index[:, 5 : 5 + count], _types(count))


@options
def test_no_node(name: str) -> None:
    layer = gnn.accelerate(_layer(**OPTIONS[name]))
    edge_index = torch.zeros(2, 0, dtype=torch.long)
    assert layer(torch.zeros(0, FEATURES), edge_index, _types(0)).shape == (0, 8)


@pytest.mark.parametrize("bad", [-1, _RELATIONS])
def test_a_relation_out_of_range_is_an_error(bad: int) -> None:
    kinds = _types()
    kinds[50] = bad
    with pytest.raises(IndexError, match=rf"edge_type .* below 5.* but got {bad}"):
        gnn.accelerate(_layer())(*graph(), kinds)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=["int32", "int64"])
def test_types_of_edges_that_changed_are_read_again(dtype: torch.dtype) -> None:
    layer, (x, edge_index), kinds = _layer(), graph(), _types().to(dtype)
    fast = gnn.accelerate(copy.deepcopy(layer))
    for _ in range(3):
        with counted() as counts:
            torch.testing.assert_close(
                fast(x, edge_index, kinds), layer(x, edge_index, kinds), rtol=1e-5, atol=1e-5
            )
        assert not fell_back(counts.fallbacks)
        kinds[7] = (kinds[7] + 1) % _RELATIONS


def test_a_graph_is_sorted_once() -> None:
    fast, (x, edge_index), kinds = gnn.accelerate(_layer()), graph(), _types()
    run(fast, x, edge_index, kinds)
    before = cpuaccel.stats()["index_cache"]["misses"]
    run(fast, x, edge_index, kinds)
    assert cpuaccel.stats()["index_cache"]["misses"] == before


def test_gradients_are_derivatives() -> None:
    torch.manual_seed(3)
    layer = gnn.accelerate(_layer()).double()
    x = torch.randn(12, FEATURES, dtype=torch.float64, requires_grad=True)
    edge_index, kinds = torch.randint(0, 9, (2, 40)), _types(40)
    assert torch.autograd.gradcheck(lambda x: layer(x, edge_index, kinds), x)


def test_calls_that_fall_back() -> None:
    x, edge_index = graph()
    numbers = torch.randperm(NODES)
    reason = "features are indices, or have another dtype than the weights"
    check_falls_back(_layer(NODES), reason, numbers, edge_index, _types())
    layer = _layer(flow="target_to_source")
    check_falls_back(layer, "flow from target to source", x, edge_index, _types())
    # torch_geometric's result has at least the default dtype.
    torch.set_default_dtype(torch.float64)
    try:
        layer = _layer().float()
        check_falls_back(
            layer, "the result has another dtype than the weights", x, edge_index, _types()
        )
    finally:
        torch.set_default_dtype(torch.float32)


@options
def test_state_copies_and_pickles(name: str) -> None:
    check_round_trip(_layer(**OPTIONS[name]), *graph(), _types())


def test_inference() -> None:
    layer, data = _layer(), (*graph(), _types())
    fast = gnn.accelerate(copy.deepcopy(layer))
    with torch.inference_mode():
        torch.testing.assert_close(fast(*data), layer(*data), rtol=1e-5, atol=1e-5)
    check(layer, *data)


def test_compiled_code_falls_back() -> None:
    fast, data = gnn.accelerate(_layer()), (*graph(), _types())
    compiled = torch.compile(fast, backend="eager")
    torch.testing.assert_close(compiled(*data), fast(*data), rtol=1e-5, atol=1e-5)


def test_an_index_out_of_range_is_an_error() -> None:
    x, edge_index = graph()
    edge_index[1, 3] = NODES
    with pytest.raises(IndexError, match=r"edge_index\[1\] .* but got 60"):
        gnn.accelerate(_layer())(x, edge_index, _types())
