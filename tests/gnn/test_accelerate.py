"""cpuaccel.gnn.accelerate: torch_geometric's layers give the same numbers on fused ops."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from quant._engine import counted, needs_plugin, off
from torch import Tensor, nn

import cpuaccel

pytestmark = needs_plugin

gnn = pytest.importorskip("cpuaccel.gnn")
pyg = pytest.importorskip("torch_geometric.nn", exc_type=ImportError)

_NODES, _EDGES, _FEATURES = 60, 700, 16

LAYERS: dict[str, Callable[[], nn.Module]] = {
    "GCN": lambda: pyg.GCNConv(16, 8),
    "GCN improved": lambda: pyg.GCNConv(16, 8, improved=True),
    "GCN without loops": lambda: pyg.GCNConv(16, 8, add_self_loops=False, bias=False),
    "GCN not normalized": lambda: pyg.GCNConv(16, 8, normalize=False),
    "GCN cached": lambda: pyg.GCNConv(16, 8, cached=True),
    "SAGE mean": lambda: pyg.SAGEConv(16, 8),
    "SAGE max": lambda: pyg.SAGEConv(16, 8, aggr="max"),
    "SAGE min": lambda: pyg.SAGEConv(16, 8, aggr="min", normalize=True),
    "SAGE sum": lambda: pyg.SAGEConv(16, 8, aggr="sum", project=True),
    "GIN": lambda: pyg.GINConv(nn.Sequential(nn.Linear(16, 8), nn.ReLU()), train_eps=True),
    "Graph": lambda: pyg.GraphConv(16, 8),
    "Graph max": lambda: pyg.GraphConv(16, 8, aggr="max"),
    "GAT": lambda: pyg.GATConv(16, 8, heads=4),
    "GAT one head": lambda: pyg.GATConv(16, 7, add_self_loops=False),
    "GAT mean": lambda: pyg.GATConv(16, 8, heads=3, concat=False, dropout=0.3, residual=True),
    "GATv2": lambda: pyg.GATv2Conv(16, 8, heads=4),
    "GATv2 shared": lambda: pyg.GATv2Conv(16, 7, heads=2, share_weights=True, dropout=0.2),
    "PNA": lambda: pyg.PNAConv(16, 8, ["mean", "std", "max"], ["linear"], torch.ones(9)),
    "Edge": lambda: pyg.EdgeConv(nn.Linear(32, 8)),
    "Edge deep": lambda: pyg.EdgeConv(nn.Sequential(nn.Linear(32, 8), nn.Tanh()), aggr="add"),
    "GATv2 mean": lambda: pyg.GATv2Conv(16, 8, heads=2, concat=False, residual=True),
}
layers = pytest.mark.parametrize("name", LAYERS)
WEIGHTED = pytest.mark.parametrize("name", [n for n in LAYERS if n.startswith(("GCN", "Graph"))])


def _graph(count: int = _EDGES) -> tuple[Tensor, Tensor]:
    """Features after a ReLU, many of them equal, and edges with self-loops and repeated ones."""
    edge_index = torch.randint(0, _NODES, (2, count))
    edge_index[:, :5] = 7
    return torch.randn(_NODES, _FEATURES).relu(), edge_index


def _run(layer: Any, x: Tensor, *others: Any) -> tuple[Tensor, ...]:
    """The result and all gradients, with the same draws of dropout each time."""
    x = x.clone().requires_grad_()
    torch.manual_seed(1)
    y = layer(x, *others)
    weights = torch.arange(y.numel()).view_as(y).sin()
    needs = [x, *layer.parameters(), *(t for t in others if t.requires_grad)]
    return y, *torch.autograd.grad((y * weights).sum(), needs)


def _same(found: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    torch.testing.assert_close(found[0], expected[0], rtol=1e-5, atol=1e-5)
    for a, b in zip(found[1:], expected[1:], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def _fell_back(fallbacks: dict[str, int]) -> list[str]:
    return [name for name in fallbacks if name.startswith("gnn.")]


@layers
def test_numbers_and_gradients_are_those_of_the_plain_layer(name: str) -> None:
    plain = LAYERS[name]()
    fast = gnn.accelerate(copy.deepcopy(plain))
    assert type(fast) is not type(plain)
    assert isinstance(fast, type(plain))
    x, edge_index = _graph()
    for _ in range(2):
        expected = _run(plain, x, edge_index)
        with counted() as counts:
            _same(_run(fast, x, edge_index), expected)
        assert not _fell_back(counts.fallbacks)
        # The next call has another graph in the same memory; layers that cache ignore the change.
        edge_index[0, 11] = (edge_index[0, 11] + 1) % _NODES
    fast.eval()
    plain.eval()
    with torch.no_grad():
        torch.testing.assert_close(fast(x, edge_index), plain(x, edge_index), rtol=1e-5, atol=1e-5)


@WEIGHTED
@pytest.mark.parametrize("learns", [False, True])
def test_weights_of_edges(name: str, learns: bool) -> None:
    plain = LAYERS[name]()
    fast = gnn.accelerate(copy.deepcopy(plain))
    x, edge_index = _graph()
    weight = torch.rand(_EDGES, requires_grad=learns)
    # At most one self-loop for each node: with two, which of them counts is not defined.
    edge_index[:, 1:5] = torch.tensor([[1], [2]])
    again = "cached" in name and learns
    _same(_run(fast, x, edge_index, weight), _run(plain, x, edge_index, weight))
    if not again:
        _same(_run(fast, x, edge_index, weight), _run(plain, x, edge_index, weight))


@pytest.mark.parametrize("name", ["SAGE mean", "SAGE max", "GIN", "Graph", "GAT", "GATv2"])
def test_two_kinds_of_nodes(name: str) -> None:
    plain = LAYERS[name]()
    fast = gnn.accelerate(copy.deepcopy(plain))
    x, edge_index = _graph()
    edge_index[1] %= 30
    pair = (x, torch.randn(30, _FEATURES))
    with counted() as counts:
        found = fast(pair, edge_index)
    assert not _fell_back(counts.fallbacks)
    torch.testing.assert_close(found, plain(pair, edge_index), rtol=1e-5, atol=1e-5)


def _hooked(layer: Any) -> None:
    layer.register_propagate_forward_hook(lambda module, inputs, output: output * 2)


def _explained(layer: Any) -> None:
    layer.explain = True
    layer._edge_mask = torch.linspace(-1, 1, _EDGES)
    layer._loop_mask = torch.ones(_EDGES, dtype=torch.bool)


@pytest.mark.parametrize("name", ["SAGE mean", "Graph", "GCN not normalized"])
@pytest.mark.parametrize("change", [_hooked, _explained], ids=["hooks", "explain"])
def test_hooks_and_explanations_fall_back(name: str, change: Callable[[Any], None]) -> None:
    plain = LAYERS[name]()
    fast = gnn.accelerate(copy.deepcopy(plain))
    change(plain)
    change(fast)
    x, edge_index = _graph()
    with counted() as counts:
        found = fast(x, edge_index)
    assert torch.equal(found, plain(x, edge_index))
    assert len(_fell_back(counts.fallbacks)) == 1
    assert "fell back to torch_geometric" in str(cpuaccel.explain(fast))


@pytest.mark.parametrize("name", ["SAGE mean", "GAT"])
def test_layers_that_were_explained_are_fused_again(name: str) -> None:
    plain = LAYERS[name]()
    x, edge_index = _graph()
    expected = plain(x, edge_index)
    plain.explain = True
    plain.explain = False
    fast = gnn.accelerate(copy.deepcopy(plain))
    for _ in range(2):
        with counted() as counts:
            torch.testing.assert_close(fast(x, edge_index), expected, rtol=1e-5, atol=1e-5)
        assert not _fell_back(counts.fallbacks)
        fast.explain = True
        fast.explain = False
    gnn.unaccelerate(fast)
    with counted() as counts:
        assert torch.equal(fast(x, edge_index), expected)
    assert counts.calls["scatter_add.cpuaccel"] > 0


def test_other_calls_fall_back() -> None:
    x, edge_index = _graph()
    gat = gnn.accelerate(pyg.GATConv(16, 8, heads=2, edge_dim=3))
    plain = gnn.unaccelerate(copy.deepcopy(gat))
    attr = torch.randn(_EDGES, 3)
    with counted() as counts:
        assert torch.equal(gat(x, edge_index, attr), plain(x, edge_index, attr))
        out, (edges, alpha) = gat(x, edge_index, return_attention_weights=True)
        theirs, (their_edges, their_alpha) = plain(x, edge_index, return_attention_weights=True)
    assert torch.equal(out, theirs)
    assert torch.equal(edges, their_edges)
    assert torch.equal(alpha, their_alpha)
    assert counts.fallbacks["gnn.GATConv: edge features"] == 1
    assert counts.fallbacks["gnn.GATConv: attention weights are requested"] == 1
    sage = gnn.accelerate(pyg.SAGEConv(16, 8))
    matrix = torch.sparse_coo_tensor(edge_index.flip(0), torch.ones(_EDGES), (_NODES, _NODES))
    with counted() as counts, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sage(x, matrix.coalesce())
    assert counts.fallbacks["gnn.SAGEConv: edge_index is not a plain [2, E] tensor"] == 1
    double = gnn.accelerate(pyg.SAGEConv(16, 8)).bfloat16()
    with counted() as counts:
        assert double(x.bfloat16(), edge_index).dtype == torch.bfloat16
    assert len(_fell_back(counts.fallbacks)) == 1


def test_errors_are_those_of_the_plain_layer_or_say_more() -> None:
    layer = gnn.accelerate(pyg.SAGEConv(16, 8))
    x, edge_index = _graph()
    bad = edge_index.clone()
    bad[0, 9] = _NODES
    with pytest.raises(IndexError, match=r"edge_index\[0\] .* but got 60"):
        layer(x, bad)
    with pytest.raises(ValueError, match="integer"):
        layer(x, edge_index.float())


def test_off_means_off() -> None:
    layer = gnn.accelerate(pyg.GCNConv(16, 8))
    x, edge_index = _graph()
    with off():
        found = layer(x, edge_index)
        assert torch.equal(found, gnn.unaccelerate(copy.deepcopy(layer))(x, edge_index))
        with pytest.warns(RuntimeWarning, match="cpuaccel is off"):
            assert type(gnn.accelerate(pyg.GCNConv(16, 8))) is pyg.GCNConv


class _Own(pyg.GCNConv):  # type: ignore[misc, name-defined]
    pass


def test_explain_names_accelerated_layers_and_reasons_for_others() -> None:
    replaced = pyg.SAGEConv(16, 8)
    replaced.message = lambda x_j: x_j
    model = nn.ModuleDict(
        {
            "taken": pyg.GCNConv(16, 8),
            "own": _Own(16, 8),
            "edge": pyg.FeaStConv(16, 8),
            "aggr": pyg.SAGEConv(16, 8, aggr="median"),
            "replaced": replaced,
        }
    )
    assert "pyg.GCNConv" not in str(cpuaccel.explain(model))
    rows = {row.layer: row for row in cpuaccel.explain(gnn.accelerate(model)).rows}
    assert (rows["taken"].provider, rows["taken"].kernel) == ("cpuaccel", "spmm")
    assert rows["own"].note == "not accelerated: a subclass of GCNConv"
    assert "no fused form" in rows["edge"].note
    assert "aggregation median" in rows["aggr"].note
    assert "its method message was replaced" in rows["replaced"].note
    assert "pyg." not in str(cpuaccel.explain(gnn.unaccelerate(model)))
    assert type(model["taken"]) is pyg.GCNConv


@layers
def test_state_copies_and_pickles(name: str) -> None:
    model = nn.Sequential(LAYERS[name]())
    keys = list(model.state_dict())
    fast = gnn.accelerate(model)
    assert fast is model
    assert list(fast.state_dict()) == keys
    x, edge_index = _graph()
    fast.eval()
    copied = copy.deepcopy(fast)
    assert type(copied[0]) is type(fast[0])
    assert torch.equal(copied[0](x, edge_index), fast[0](x, edge_index))
    if name.partition(" ")[0] not in ("GIN", "Edge"):
        assert repr(copied) == repr(fast)
    loaded = pickle.loads(pickle.dumps(fast))
    assert type(loaded[0]).__module__.startswith("torch_geometric")
    torch.testing.assert_close(loaded[0](x, edge_index), fast[0](x, edge_index))


def test_not_a_module() -> None:
    for function in (gnn.accelerate, gnn.unaccelerate):
        with pytest.raises(TypeError, match=r"model: expected a torch\.nn\.Module, got int"):
            function(3)


@pytest.mark.parametrize("name", ["SAGE mean", "SAGE max", "GIN", "Graph", "GCN not normalized"])
def test_compiles(name: str) -> None:
    fast = gnn.accelerate(LAYERS[name]())
    x, edge_index = _graph()
    compiled = torch.compile(fast, backend="aot_eager", fullgraph=True)
    _same(_run(compiled, x, edge_index), _run(fast, x, edge_index))
