"""cpuaccel.gnn.accelerate of PNAConv."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from quant._engine import needs_plugin
from torch import Tensor, nn

import cpuaccel
from gnn._accelerated import (
    EDGES,
    FEATURES,
    NODES,
    check,
    check_falls_back,
    check_round_trip,
    graph,
    run,
)

pytestmark = needs_plugin

gnn = pytest.importorskip("cpuaccel.gnn")
pyg = pytest.importorskip("torch_geometric.nn", exc_type=ImportError)

_ALL = ["mean", "min", "max", "sum", "var", "std"]
_SCALERS = ["identity", "amplification", "attenuation", "linear", "inverse_linear"]
_DEGREES = torch.tensor([5, 0, 3, 9, 20, 30, 10, 2])
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])

OPTIONS: dict[str, dict[str, Any]] = {
    "example": {
        "aggregators": ["mean", "min", "max", "std"],
        "scalers": ["identity", "amplification", "attenuation"],
    },
    "all": {},
    "one": {"aggregators": ["max"], "scalers": ["linear"]},
    "towers": {"towers": 4, "post_layers": 2},
    "divided": {"towers": 4, "divide_input": True, "scalers": ["identity", "inverse_linear"]},
    "trained": {"train_norm": True},
    "edge features": {"edge_dim": 3},
    "deep": {"pre_layers": 3, "post_layers": 2, "act": "leaky_relu"},
    "deep in place": {"pre_layers": 2, "act_kwargs": {"inplace": True}},
    "deep edge features": {"pre_layers": 2, "edge_dim": 3, "towers": 2},
}
options = pytest.mark.parametrize("name", OPTIONS)


def _layer(**changes: Any) -> nn.Module:
    arguments: dict[str, Any] = {"aggregators": _ALL, "scalers": _SCALERS, "deg": _DEGREES}
    torch.manual_seed(0)
    return pyg.PNAConv(FEATURES, 8, **{**arguments, **changes})


@options
@dtypes
def test_numbers_and_gradients(name: str, dtype: torch.dtype) -> None:
    layer = _layer(**OPTIONS[name])
    features = [torch.randn(EDGES, 3)] if "edge features" in name else []
    check(layer, *graph(), *features, dtype=dtype)


@pytest.mark.parametrize("count", [0, 1, 30])
def test_few_edges(count: int) -> None:
    x, edge_index = graph()
    check(_layer(), x, edge_index[:, 5 : 5 + count])


def test_no_node() -> None:
    layer = gnn.accelerate(_layer())
    assert layer(torch.zeros(0, FEATURES), torch.zeros(2, 0, dtype=torch.long)).shape == (0, 8)


def test_messages_of_0_share_as_torch_has_it() -> None:
    """Bias and features are 0: each extreme is 0, and messages of 0 share its gradient."""
    layer: Any = _layer(aggregators=["max", "min"])
    nn.init.zeros_(layer.pre_nns[0][0].bias)
    x, edge_index = graph()
    x[:30] = 0
    check(layer, x, edge_index)


def test_gradients_are_derivatives() -> None:
    torch.manual_seed(3)
    layer = gnn.accelerate(_layer(aggregators=["mean", "var", "min", "max"])).double()
    x = torch.randn(12, FEATURES, dtype=torch.float64, requires_grad=True)
    edge_index = torch.randint(0, 9, (2, 30))
    assert torch.autograd.gradcheck(lambda x: layer(x, edge_index), x)


def test_large_features_have_no_more_error_than_float32_needs() -> None:
    """Features are far from 0, so their squares have few digits left for a variance."""
    layer = _layer(aggregators=["mean", "std"])
    x, edge_index = graph()
    x = x + 100
    expected = copy.deepcopy(layer).double()(x.double(), edge_index)
    found = gnn.accelerate(copy.deepcopy(layer))(x, edge_index)
    theirs = layer(x, edge_index)
    ours_off = (found - expected).abs().max()
    assert ours_off <= 2 * (theirs - expected).abs().max()


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_same_bits_on_any_number_of_threads(threads: int) -> None:
    layer = gnn.accelerate(_layer(towers=4))
    data = graph()
    before = torch.get_num_threads()
    expected = run(layer, *data)
    try:
        torch.set_num_threads(threads)
        found = run(layer, *data)
    finally:
        torch.set_num_threads(before)
    # Matrix products are torch's, whose threads may split them; sums over edges are cpuaccel's.
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


def _hooked(layer: Any) -> None:
    layer.pre_nns[0][0].register_forward_hook(lambda module, inputs, output: output * 2)


def _aggregation_hooked(layer: Any) -> None:
    layer.aggr_module.aggr.aggrs[0].register_forward_hook(lambda module, x, y: y * 2)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_hooked, "a network does not begin with a plain linear layer"),
        (_aggregation_hooked, "an aggregation has hooks"),
    ],
    ids=["linear", "aggregation"],
)
def test_hooks_inside_fall_back(change: Any, reason: str) -> None:
    layer = _layer()
    fast = gnn.accelerate(copy.deepcopy(layer))
    change(layer)
    change(fast)
    x, edge_index = graph()
    torch.testing.assert_close(fast(x, edge_index), layer(x, edge_index))
    assert reason in str(cpuaccel.explain(fast))


def test_calls_that_fall_back() -> None:
    x, edge_index = graph()
    check_falls_back(_layer(flow="target_to_source"), "flow from target to source", x, edge_index)
    reason = "features are not 2-D"
    check_falls_back(_layer(), reason, x.view(NODES, 2, -1), edge_index)
    for features, layer in ((torch.randn(EDGES, 3), _layer()), (None, _layer(edge_dim=3))):
        fast = gnn.accelerate(layer)
        with pytest.raises((AttributeError, RuntimeError)):
            fast(x, edge_index, features)
        assert "edge features do not fit the layer" in str(cpuaccel.explain(fast))


def test_reasons_why_a_layer_is_not_accelerated() -> None:
    model = nn.ModuleList([_layer(aggregators=["mean", "median"]), _layer()])
    rows = {row.layer: row for row in cpuaccel.explain(gnn.accelerate(model)).rows}
    assert rows["0"].note == "not accelerated: aggregation MedianAggregation()"
    assert (rows["1"].provider, rows["1"].kernel) == ("cpuaccel", "edge_stats")


def test_state_copies_and_pickles() -> None:
    check_round_trip(_layer(towers=2), *graph())


def test_inference() -> None:
    layer, data = _layer(), graph()
    fast = gnn.accelerate(copy.deepcopy(layer))
    with torch.inference_mode():
        torch.testing.assert_close(fast(*data), layer(*data), rtol=1e-5, atol=1e-5)
    check(layer, *data)


def test_compiled_code_falls_back() -> None:
    fast, data = gnn.accelerate(_layer()), graph()
    compiled = torch.compile(fast, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(*data), fast(*data), rtol=1e-5, atol=1e-5)


def test_an_index_out_of_range_is_an_error() -> None:
    x, edge_index = graph()
    bad: Tensor = edge_index.clone()
    bad[0, 3] = NODES
    with pytest.raises(IndexError, match=r"edge_index\[0\] .* but got 60"):
        gnn.accelerate(_layer())(x, bad)
