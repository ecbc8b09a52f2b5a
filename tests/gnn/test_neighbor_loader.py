"""cpuaccel.gnn's loaders give PyG's batches, without PyG's extensions."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from _process import run_python
from quant._engine import needs_plugin
from torch import Tensor

from gnn._sampling import needs_pyg, slices

pytestmark = [
    needs_plugin,
    needs_pyg,
    pytest.mark.filterwarnings("ignore:.*pin_memory"),
    # torch warns about forks of a parent with threads; these tests fork workers on purpose.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork"),
]


def _data(nodes: int = 200, edges: int = 2000) -> Any:
    from torch_geometric.data import Data

    edge_index = torch.randint(0, nodes, (2, edges))
    x = torch.arange(nodes).float()[:, None]
    return Data(x=x, y=torch.arange(nodes), edge_index=edge_index, edge_attr=torch.arange(edges))


def _typed() -> Any:
    from torch_geometric.data import HeteroData

    data = HeteroData()
    data["user"].x = torch.arange(50).float()[:, None]
    data["item"].x = torch.arange(80).float()[:, None]
    bought = torch.stack([torch.randint(0, 50, (600,)), torch.randint(0, 80, (600,))])
    data["user", "bought", "item"].edge_index = bought
    data["item", "rev_bought", "user"].edge_index = bought.flip(0)
    data["user", "knows", "user"].edge_index = torch.randint(0, 50, (2, 150))
    return data


def _pairs(edge_index: Tensor, src: Tensor, dst: Tensor) -> Tensor:
    return torch.stack([src[edge_index[0]], dst[edge_index[1]]])


def test_signatures_are_pyg_s() -> None:
    import torch_geometric.loader

    import cpuaccel.gnn

    for name in ("NeighborLoader", "LinkNeighborLoader"):
        ours, theirs = getattr(cpuaccel.gnn, name), getattr(torch_geometric.loader, name)
        assert issubclass(ours, theirs)
        shown = [
            [(p.name, p.kind, p.default) for p in inspect.signature(each).parameters.values()]
            for each in (ours, theirs)
        ]
        assert shown[0] == shown[1]
    from torch_geometric.sampler import BaseSampler

    assert issubclass(cpuaccel.gnn.NeighborSampler, BaseSampler)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("flags", [{}, {"replace": True}, {"disjoint": True}])
def test_batches(flags: dict[str, bool], workers: int) -> None:
    from cpuaccel.gnn import NeighborLoader

    data = _data()
    inputs = torch.arange(30, 170)
    loader = NeighborLoader(
        data, [4, 3], inputs, batch_size=50, shuffle=True, num_workers=workers, **flags
    )
    seen = []
    for batch in loader:
        assert batch.batch_size == len(batch.input_id)
        seeds = batch.n_id[: batch.batch_size]
        assert torch.equal(seeds, inputs[batch.input_id])
        seen.append(seeds)
        assert torch.equal(batch.x[:, 0].long(), batch.n_id)
        assert torch.equal(batch.y, batch.n_id)
        assert torch.equal(batch.edge_attr, batch.e_id)
        pairs = _pairs(batch.edge_index, batch.n_id, batch.n_id)
        assert torch.equal(pairs, data.edge_index[:, batch.e_id])
        assert sum(batch.num_sampled_nodes) == len(batch.n_id)
        assert sum(batch.num_sampled_edges) == batch.num_edges
        if flags.get("disjoint"):
            assert torch.equal(batch.batch[: batch.batch_size], torch.arange(batch.batch_size))
        else:
            assert batch.batch is None
    assert torch.equal(torch.cat(seen).sort().values, inputs)


def test_num_sampled_is_what_trim_to_layer_needs() -> None:
    from torch_geometric.nn import SAGEConv
    from torch_geometric.utils import trim_to_layer

    from cpuaccel.gnn import NeighborLoader

    batch = next(iter(NeighborLoader(_data(), [5, 4, 3], batch_size=16)))
    layers = [SAGEConv(1, 6), SAGEConv(6, 6), SAGEConv(6, 2)]
    x = whole = batch.x
    edges = batch.edge_index
    for i, layer in enumerate(layers):
        x, edges, _ = trim_to_layer(i, batch.num_sampled_nodes, batch.num_sampled_edges, x, edges)
        x = layer(x, edges)
        whole = layer(whole, batch.edge_index)
    torch.testing.assert_close(x[:16], whole[:16])


@pytest.mark.parametrize("kind", ["directional", "bidirectional", "induced"])
def test_kinds_of_subgraphs(kind: str) -> None:
    from cpuaccel.gnn import NeighborLoader

    data = _data(60, 400)
    torch.manual_seed(3)
    batch = next(iter(NeighborLoader(data, [3, 2], subgraph_type=kind, batch_size=8)))
    torch.manual_seed(3)
    plain = next(iter(NeighborLoader(data, [3, 2], batch_size=8)))
    assert torch.equal(batch.n_id, plain.n_id)
    found = {tuple(pair) for pair in batch.edge_index.t().tolist()}
    sampled = {tuple(pair) for pair in plain.edge_index.t().tolist()}
    if kind == "directional":
        assert found == sampled
    elif kind == "bidirectional":
        assert found == sampled | {(b, a) for a, b in sampled}
    else:
        between = data.subgraph(batch.n_id)
        assert batch.num_edges == between.num_edges
        assert found >= sampled
    if kind != "directional":
        assert "num_sampled_nodes" not in batch
        assert "num_sampled_edges" not in batch


def test_the_older_name_of_induced() -> None:
    from cpuaccel.gnn import NeighborSampler

    with pytest.warns(UserWarning, match="subgraph_type='induced'"):
        sampler = NeighborSampler(_data(), [2], directed=False)
    assert sampler.subgraph_type.value == "induced"


@pytest.mark.parametrize("workers", [0, 2])
def test_manual_seed_decides(workers: int) -> None:
    from cpuaccel.gnn import NeighborLoader

    data = _data()

    def edges(seed: int) -> list[Tensor]:
        torch.manual_seed(seed)
        loader = NeighborLoader(data, [3, 3], batch_size=64, shuffle=True, num_workers=workers)
        return [batch.e_id for batch in loader]

    first, again, other = edges(1), edges(1), edges(2)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("fan_out", [[3, 2], {"user": [2, 1], "item": [-1, 0]}])
def test_graphs_with_types(fan_out: Any, disjoint: bool) -> None:
    from cpuaccel.gnn import NeighborLoader

    data = _typed()
    if isinstance(fan_out, dict):
        fan_out = {name: fan_out[name[-1]] for name in data.edge_types}
    inputs = ("item", torch.arange(5, 80))
    for batch in NeighborLoader(data, fan_out, inputs, batch_size=25, disjoint=disjoint):
        assert batch["item"].batch_size == 25
        assert torch.equal(batch["item"].n_id[:25], inputs[1][batch["item"].input_id])
        for name in data.node_types:
            assert torch.equal(batch[name].x[:, 0].long(), batch[name].n_id)
            assert sum(batch[name].num_sampled_nodes) == batch[name].num_nodes
            assert ("batch" in batch[name]) == disjoint
        for name in data.edge_types:
            src, _, dst = name
            edges = batch[name]
            pairs = _pairs(edges.edge_index, batch[src].n_id, batch[dst].n_id)
            assert torch.equal(pairs, data[name].edge_index[:, edges.e_id])
            assert sum(edges.num_sampled_edges) == edges.num_edges
            if disjoint:
                trees = _pairs(edges.edge_index, batch[src].batch, batch[dst].batch)
                assert torch.equal(*trees)
            most = fan_out[name] if isinstance(fan_out, dict) else fan_out
            for hop, of_hop in enumerate(slices(edges.num_sampled_edges)):
                ends = edges.edge_index[1, of_hop.start : of_hop.stop]
                counts = torch.bincount(ends, minlength=1)
                assert most[hop] < 0 or int(counts.max()) <= most[hop]


def test_a_number_of_hops_for_each_edge_type() -> None:
    from cpuaccel.gnn import NeighborSampler

    data = _typed()
    numbers = {name: [1] * (1 + (i == 0)) for i, name in enumerate(data.edge_types)}
    with pytest.raises(ValueError, match="hops must be the same"):
        NeighborSampler(data, numbers)


def test_stores() -> None:
    from torch_geometric.testing import MyFeatureStore, MyGraphStore

    from cpuaccel.gnn import NeighborLoader

    features, graph, typed = MyFeatureStore(), MyGraphStore(), _typed()
    for name in typed.node_types:
        features.put_tensor(typed[name].x, group_name=name, attr_name="x", index=None)
    for name in typed.edge_types:
        size = (typed[name[0]].num_nodes, typed[name[-1]].num_nodes)
        graph.put_edge_index(
            typed[name].edge_index, edge_type=name, layout="coo", size=size, is_sorted=False
        )
    batch = next(iter(NeighborLoader((features, graph), [3, 2], "item", batch_size=9)))
    for name in typed.edge_types:
        pairs = _pairs(batch[name].edge_index, batch[name[0]].n_id, batch[name[-1]].n_id)
        assert torch.equal(pairs, typed[name].edge_index[:, batch[name].e_id])
    for name in typed.node_types:
        assert torch.equal(batch[name].x[:, 0].long(), batch[name].n_id)


def test_edge_index_of_pyg_s_own_class() -> None:
    from torch_geometric import EdgeIndex

    from cpuaccel.gnn import NeighborLoader

    data = _data()
    expected = data.edge_index
    data.edge_index = EdgeIndex(expected, sparse_size=(200, 200))
    batch = next(iter(NeighborLoader(data, [4], batch_size=20)))
    pairs = _pairs(batch.edge_index, batch.n_id, batch.n_id)
    assert torch.equal(torch.as_tensor(pairs), expected[:, batch.e_id])


def test_sorted_edges_keep_their_order() -> None:
    from cpuaccel.gnn import NeighborLoader, NeighborSampler

    data = _data().sort(sort_by_row=False)
    loader = NeighborLoader(data, [4], batch_size=20, is_sorted=True)
    assert loader.node_sampler.edge_permutation is None
    batch = next(iter(loader))
    pairs = _pairs(batch.edge_index, batch.n_id, batch.n_id)
    assert torch.equal(pairs, data.edge_index[:, batch.e_id])
    with pytest.raises(ValueError, match="edge_index: expected edges sorted"):
        NeighborSampler(_data(), [4], is_sorted=True)


def test_a_graph_without_edges() -> None:
    from torch_geometric.data import Data

    from cpuaccel.gnn import NeighborLoader

    for data in (Data(num_nodes=5), Data(num_nodes=5, edge_index=torch.empty(2, 0).long())):
        batch = next(iter(NeighborLoader(data, [3, 3], batch_size=5)))
        assert batch.n_id.tolist() == [0, 1, 2, 3, 4]
        assert batch.num_sampled_nodes == [5, 0, 0]


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("mode", [None, "binary", "triplet"])
def test_links(mode: str | None, disjoint: bool) -> None:
    from cpuaccel.gnn import LinkNeighborLoader

    data = _data()
    links = data.edge_index[:, ::10]
    loader = LinkNeighborLoader(
        data, [3, 2], links, batch_size=40, neg_sampling=mode, disjoint=disjoint
    )
    for batch in loader:
        expected = links[:, batch.input_id]
        count = expected.shape[1]
        if mode == "triplet":
            positive = torch.stack([batch.n_id[batch.src_index], batch.n_id[batch.dst_pos_index]])
            assert batch.dst_neg_index.shape == (count,)
        else:
            named = batch.n_id[batch.edge_label_index]
            positive = named[:, :count]
            assert named.shape[1] == count * (2 if mode else 1)
            if mode:
                assert batch.edge_label.tolist() == [1.0] * count + [0.0] * count
        assert torch.equal(positive, expected)
        pairs = _pairs(batch.edge_index, batch.n_id, batch.n_id)
        assert torch.equal(pairs, data.edge_index[:, batch.e_id])


@pytest.mark.parametrize("mode", [None, "binary", "triplet"])
def test_links_of_graphs_with_types(mode: str | None) -> None:
    from cpuaccel.gnn import LinkNeighborLoader

    data = _typed()
    name = ("user", "bought", "item")
    links = data[name].edge_index[:, :100]
    for batch in LinkNeighborLoader(data, [3, 2], (name, links), batch_size=50, neg_sampling=mode):
        users, items = batch["user"].n_id, batch["item"].n_id
        expected = links[:, batch[name].input_id]
        if mode == "triplet":
            src, dst = users[batch["user"].src_index], items[batch["item"].dst_pos_index]
        else:
            label = batch[name].edge_label_index[:, : expected.shape[1]]
            src, dst = users[label[0]], items[label[1]]
        assert torch.equal(torch.stack([src, dst]), expected)


_REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "time": ({"time_attr": "y"}, NotImplementedError, "time_attr: expected None, but got 'y'"),
    "weight": ({"weight_attr": "edge_attr"}, NotImplementedError, "weight_attr: expected None"),
    "neighbors": ({"num_neighbors": [3, -2]}, ValueError, "num_neighbors: .* but got -2"),
    "kind": ({"subgraph_type": "all"}, ValueError, "'all' is not a valid SubgraphType"),
    "strategy": ({"temporal_strategy": "best"}, ValueError, "temporal_strategy: .* 'best'"),
}


@pytest.mark.parametrize("case", _REFUSED)
def test_rejected_arguments(case: str) -> None:
    from cpuaccel.gnn import NeighborSampler

    changes, error, message = _REFUSED[case]
    with pytest.raises(error, match=message):
        NeighborSampler(_data(), **{"num_neighbors": [3], **changes})


@pytest.mark.parametrize(("place", "node"), [(0, 200), (1, 200), (1, -1)])
def test_edges_to_nodes_that_there_are_not(place: int, node: int) -> None:
    from cpuaccel.gnn import NeighborLoader

    data = _data()
    data.edge_index[place, 7] = node
    with pytest.raises(IndexError, match=rf"edge_index\[{place}\].* below 200, but got {node}"):
        NeighborLoader(data, [3])
    typed = _typed()
    typed["user", "knows", "user"].edge_index[0, 3] = 50
    with pytest.raises(IndexError, match=r"'knows'.* below 50, but got 50"):
        NeighborLoader(typed, [3], "user")


def test_inputs_that_are_no_nodes() -> None:
    from cpuaccel.gnn import NeighborLoader

    with pytest.raises(IndexError, match=r"seeds .* below 200, but got 300"):
        next(iter(NeighborLoader(_data(), [3], torch.tensor([5, 300]), batch_size=2)))


def test_the_sampler_rejects_time_too() -> None:
    from torch_geometric.sampler import NodeSamplerInput

    from cpuaccel.gnn import NeighborSampler

    inputs = NodeSamplerInput(None, torch.arange(3), time=torch.arange(3))
    with pytest.raises(NotImplementedError, match="input_time: expected None"):
        NeighborSampler(_data(), [3]).sample_from_nodes(inputs)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_model_learns_from_batches(workers: int) -> None:
    """A node's class is that of most of its neighbors; its own features say little."""
    from torch_geometric.data import Data
    from torch_geometric.nn import GraphSAGE

    from cpuaccel.gnn import NeighborLoader

    nodes, classes = 1200, 4
    y = torch.randint(0, classes, (nodes,))
    order = y.argsort()
    col = torch.arange(nodes).repeat_interleave(12)
    begin = torch.searchsorted(y[order], torch.arange(classes))
    size = torch.bincount(y, minlength=classes)
    same = order[begin[y[col]] + (torch.rand(len(col)) * size[y[col]]).long()]
    row = torch.where(torch.rand(len(col)) < 0.8, same, torch.randint(0, nodes, (len(col),)))
    x = torch.nn.functional.one_hot(y, classes) + 2.0 * torch.randn(nodes, classes)
    data = Data(x=x, y=y, edge_index=torch.stack([row, col]))
    loader = NeighborLoader(
        data, [8, 4], torch.arange(800), batch_size=100, shuffle=True, num_workers=workers
    )
    model = GraphSAGE(classes, 32, 2, classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(6):
        for batch in loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size]).backward()
            optimizer.step()
    with torch.no_grad():
        right = (model(x, data.edge_index).argmax(1) == y)[800:].float().mean()
    assert float(right) > 0.85


def test_pyg_is_imported_only_when_it_is_asked_for() -> None:
    program = (
        "import sys, cpuaccel, cpuaccel.gnn\n"
        "assert 'NeighborLoader' in dir(cpuaccel.gnn)\n"
        "assert 'torch_geometric' not in sys.modules\n"
        "sys.modules['torch_geometric'] = None\n"
        "try:\n    cpuaccel.gnn.NeighborLoader\n"
        "except ImportError as error:\n    assert 'pip install torch_geometric' in str(error)\n"
        "else:\n    raise AssertionError\n"
        "try:\n    cpuaccel.gnn.nothing\n"
        "except AttributeError as error:\n    assert 'nothing' in str(error)\n"
        "else:\n    raise AssertionError\n"
    )
    run_python(program)
