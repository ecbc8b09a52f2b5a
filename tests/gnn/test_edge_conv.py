"""cpuaccel.gnn.accelerate of EdgeConv."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from quant._engine import needs_plugin
from torch import Tensor, nn

import cpuaccel
from gnn._accelerated import FEATURES, NODES, check, check_falls_back, check_round_trip, graph

pytestmark = needs_plugin

gnn = pytest.importorskip("cpuaccel.gnn")
pyg = pytest.importorskip("torch_geometric.nn", exc_type=ImportError)

_IN = 2 * FEATURES
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
reductions = pytest.mark.parametrize("aggr", ["max", "min", "add", "mean"])

NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(_IN, 8),
    "no bias": lambda: nn.Linear(_IN, 8, bias=False),
    "pyg linear": lambda: pyg.Linear(_IN, 8),
    "two": lambda: nn.Sequential(nn.Linear(_IN, 12), nn.ReLU(), nn.Linear(12, 8)),
    "relu": lambda: nn.Sequential(nn.Linear(_IN, 8), nn.ReLU(inplace=True)),
    "leaky relu": lambda: nn.Sequential(nn.Linear(_IN, 8), nn.LeakyReLU(0.1), nn.ReLU()),
    "descending": lambda: nn.Sequential(nn.Linear(_IN, 8), nn.LeakyReLU(-0.1)),
    "norm": lambda: nn.Sequential(nn.Linear(_IN, 12), nn.BatchNorm1d(12), nn.Tanh()),
    "mlp": lambda: pyg.MLP([_IN, 12, 8]),
    "mlp of one": lambda: pyg.MLP([_IN, 8]),
}
DRAWING: dict[str, Callable[[], nn.Module]] = {
    "dropout": lambda: nn.Sequential(nn.Linear(_IN, 12), nn.Dropout(0.4), nn.Linear(12, 8)),
    "mlp with dropout": lambda: pyg.MLP([_IN, 12, 8], dropout=0.3),
}
networks = pytest.mark.parametrize("network", NETWORKS)


def _layer(network: str, **changes: Any) -> nn.Module:
    torch.manual_seed(0)
    return pyg.EdgeConv({**NETWORKS, **DRAWING}[network](), **changes)


@networks
@reductions
@dtypes
def test_numbers_and_gradients(network: str, aggr: str, dtype: torch.dtype) -> None:
    check(_layer(network, aggr=aggr), *graph(), dtype=dtype)


@pytest.mark.parametrize("network", DRAWING)
def test_dropout_draws_what_the_plain_layer_draws(network: str) -> None:
    check(_layer(network), *graph(), dtype=torch.float64)


@pytest.mark.parametrize("network", ["linear", "two"])
@reductions
def test_two_kinds_of_nodes(network: str, aggr: str) -> None:
    x, edge_index = graph()
    edge_index[1] %= 30
    check(_layer(network, aggr=aggr), (x, torch.randn(30, FEATURES)), edge_index)


@pytest.mark.parametrize("network", ["linear", "two"])
@reductions
@pytest.mark.parametrize("count", [0, 1, 30])
def test_few_edges(network: str, aggr: str, count: int) -> None:
    x, edge_index = graph()
    check(_layer(network, aggr=aggr), x, edge_index[:, 5 : 5 + count])


@pytest.mark.parametrize("network", ["linear", "two"])
@reductions
def test_no_node(network: str, aggr: str) -> None:
    layer = gnn.accelerate(_layer(network, aggr=aggr))
    edge_index = torch.zeros(2, 0, dtype=torch.long)
    assert layer(torch.zeros(0, FEATURES), edge_index).shape == (0, 8)


@reductions
def test_messages_of_0_share_as_torch_has_it(aggr: str) -> None:
    x, edge_index = graph()
    x[:30] = 0
    check(_layer("no bias", aggr=aggr), x, edge_index)


@pytest.mark.parametrize("aggr", ["max", "mean"])
def test_gradients_are_derivatives(aggr: str) -> None:
    torch.manual_seed(3)
    layer = gnn.accelerate(_layer("linear", aggr=aggr)).double()
    x = torch.randn(12, FEATURES, dtype=torch.float64, requires_grad=True)
    edge_index = torch.randint(0, 9, (2, 30))
    assert torch.autograd.gradcheck(lambda x: layer(x, edge_index), x)


class _Own(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 2


def test_reasons_why_a_layer_is_not_accelerated() -> None:
    model = nn.ModuleDict(
        {
            "own": pyg.EdgeConv(_Own(_IN, 8)),
            "activation": pyg.EdgeConv(nn.Sequential(nn.ReLU(), nn.Linear(_IN, 8))),
            "aggr": pyg.EdgeConv(nn.Linear(_IN, 8), aggr="median"),
        }
    )
    rows = {row.layer: row.note for row in cpuaccel.explain(gnn.accelerate(model)).rows}
    assert "its nn does not begin with a plain linear layer" in rows["own"]
    assert "its nn does not begin with a plain linear layer" in rows["activation"]
    assert "aggregation median" in rows["aggr"]


def test_calls_that_fall_back() -> None:
    x, edge_index = graph()
    layer = _layer("two", flow="target_to_source")
    check_falls_back(layer, "flow from target to source", x, edge_index)
    fast: Any = gnn.accelerate(_layer("two"))
    fast.nn[0].register_forward_hook(lambda module, inputs, output: output * 2)
    plain = gnn.unaccelerate(fast)
    expected = plain(x, edge_index)
    fast = gnn.accelerate(plain)
    torch.testing.assert_close(fast(x, edge_index), expected)


@networks
def test_state_copies_and_pickles(network: str) -> None:
    check_round_trip(_layer(network).eval(), *graph())


@pytest.mark.parametrize("network", ["linear", "two"])
def test_compiled_code_falls_back(network: str) -> None:
    fast, data = gnn.accelerate(_layer(network)), graph()
    compiled = torch.compile(fast, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(*data), fast(*data), rtol=1e-5, atol=1e-5)


def test_running_statistics_are_those_of_the_plain_layer() -> None:
    plain: Any = _layer("norm")
    fast = gnn.accelerate(copy.deepcopy(plain))
    data = graph()
    plain(*data)
    fast(*data)
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(fast.state_dict()[name], value, rtol=1e-5, atol=1e-5)


def test_an_index_out_of_range_is_an_error() -> None:
    x, edge_index = graph()
    edge_index[0, 3] = NODES
    for network in ("linear", "two"):
        with pytest.raises(IndexError):
            gnn.accelerate(_layer(network))(x, edge_index)


def test_a_tiny_graph_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from cpuaccel.gnn._layers import edge_conv

    x, edge_index = graph()
    monkeypatch.setattr(edge_conv, "LEAST_WORK", FEATURES * edge_index.shape[1] + 1)
    check_falls_back(_layer("relu"), edge_conv.TOO_FEW_EDGES, x, edge_index)
    monkeypatch.setattr(edge_conv, "LEAST_WORK", FEATURES * edge_index.shape[1])
    check(_layer("relu"), x, edge_index)


def test_messages_of_a_small_graph_are_torch_geometrics_unless_something_learns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from cpuaccel.gnn._layers import edge_conv

    x, edge_index = graph()
    monkeypatch.setattr(edge_conv, "LEAST_WORK_OF_MESSAGES", FEATURES * edge_index.shape[1] + 1)
    check(_layer("two"), x, edge_index)
    check(_layer("relu").requires_grad_(False), x, edge_index)
    with torch.no_grad():
        check_falls_back(_layer("two"), edge_conv.TOO_FEW_EDGES, x, edge_index)
