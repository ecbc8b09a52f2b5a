"""The GNN benchmarks, from end to end on small graphs."""

import json

import numpy as np
import pytest
import torch

from benchmarks import _plugin
from benchmarks.gnn import sampler, scatter, spmm
from benchmarks.gnn._graphs import (
    GRAPHS,
    PRODUCTS,
    REDDIT,
    chung_lu,
    ends_of,
    graph_of,
    matrix_of,
    sizes_of_graphs,
    small_graphs,
)
from benchmarks.ops import attention_step, embedding_bag, intx_embedding

_LITTLE = ("--scale", "6", "--edges", "300", "--rounds", "1", "--budget", "0.02")
_SMALL = (*_LITTLE, "--no-peaks")
_OURS = {"torch"} if _plugin.missing() else {"torch", "cpuaccel"}

graphs = pytest.mark.parametrize("graph", GRAPHS)


@pytest.fixture(autouse=True)
def _has_its_graph(request):
    if "graph" in request.fixturenames and request.getfixturevalue("graph") == "karate":
        pytest.importorskip("torch_geometric", exc_type=ImportError)


@graphs
def test_spmm_end_to_end(graph, tmp_path, capsys):
    path = tmp_path / "out.json"
    spmm.main([*_SMALL, "--graph", graph, "--columns", "3", "--json", str(path)])
    rows = json.loads(path.read_text())["rows"]
    assert [row["case"] for row in rows] == list(spmm.CASES)
    for row in rows:
        assert set(row["times"]) >= _OURS
        if not _plugin.missing():
            assert row["calls"]
    assert "sparse products" in capsys.readouterr().out


def test_embedding_bags(tmp_path):
    path = tmp_path / "out.json"
    once = ("--rounds", "1", "--budget", "0", "--json", str(path))
    embedding_bag.main(["--shapes", "30x5x4x3", *once])
    rows = json.loads(path.read_text())["rows"]
    assert len(rows) == len(embedding_bag.CASES)
    assert all(set(row["times"]) == _OURS for row in rows)


def test_integer_embeddings(tmp_path):
    pytest.importorskip("torchao.quantization")
    path = tmp_path / "out.json"
    once = ("--rounds", "1", "--budget", "0", "--json", str(path))
    intx_embedding.main(["--shapes", "30x64x5", *once])
    rows = json.loads(path.read_text())["rows"]
    assert len(rows) == 2
    assert all(set(row["times"]) >= {"torchao", "float"} for row in rows)


def test_attention_of_a_step(tmp_path):
    path = tmp_path / "out.json"
    once = ("--rounds", "1", "--budget", "0", "--json", str(path))
    attention_step.main(["--shapes", "1x4x2x16", "--context", "8", *once])
    rows = json.loads(path.read_text())["rows"]
    assert len(rows) == 3
    assert all(set(row["times"]) >= {"transformers", "SDPA", "read"} for row in rows)


def test_every_number_of_columns(tmp_path):
    pytest.importorskip("torch_geometric", exc_type=ImportError)
    path = tmp_path / "out.json"
    once = ("--rounds", "1", "--budget", "0", "--no-peaks")
    spmm.main(["--graph", "karate", "--cases", "A @ x", *once, "--json", str(path)])
    document = json.loads(path.read_text())
    assert "karate, 34 nodes, 156 edges" in document["machine"]["graph"]
    assert [row["columns"] for row in document["rows"]] == [1, 4, 8, 16, 64, 100, 128, 256, 602]


@graphs
def test_scatter_of_each_graph(graph, tmp_path):
    path = tmp_path / "out.json"
    once = ("--graph", graph, "--columns", "5", "--cases", "scatter_add", "--json", str(path))
    scatter.main([*_LITTLE, *once])
    rows = json.loads(path.read_text())["rows"]
    assert [row["name"] for row in rows] == ["K 5, scatter_add", "K 5, scatter_add, in order"]


def test_scatter_end_to_end(tmp_path, capsys):
    path = tmp_path / "out.json"
    scatter.main([*_LITTLE, "--columns", "1,5", "--json", str(path)])
    rows = json.loads(path.read_text())["rows"]
    assert len(rows) == 2 * 2 * len(scatter.CASES)

    def reads(name):
        return name.split(", ")[1] in scatter.READING

    for row in rows:
        assert set(row["times"]) >= _OURS | ({"copy"} if reads(row["name"]) else set())
        if not _plugin.missing() and not row["name"].startswith("K 1, segment"):  # torch's
            assert row["calls"]
    assert "scatter, gather and segment ops" in capsys.readouterr().out


def test_training_end_to_end(tmp_path, capsys):
    pytest.importorskip("torch_geometric", exc_type=ImportError)
    from benchmarks.gnn import training

    path = tmp_path / "out.json"
    training.main([*_LITTLE, "--models", "SAGE max,GAT", "--budget", "1", "--json", str(path)])
    for row in json.loads(path.read_text())["rows"]:
        losses = row["loss"]
        assert "torch" in losses
        if not _plugin.missing():
            assert set(losses) == {"torch", "torch, allocator", "cpuaccel", "accelerated"}
            assert row["calls"]["cpuaccel"]
        for loss in losses.values():
            assert loss == pytest.approx(losses["torch"], rel=1e-4)
    assert "training step" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="unknown model 'nothing'"):
        training.main(["--models", "nothing"])


@pytest.mark.parametrize(
    ("run", "small"),
    [(spmm.main, _SMALL), (scatter.main, _LITTLE), (sampler.main, ("--scale", "6"))],
)
def test_unknown_names(run, small):
    for kind, option in (("graph", "--graph"), ("case", "--cases")):
        with pytest.raises(SystemExit, match=f"unknown {kind} 'nothing'; known: "):
            run([*small, option, "nothing"])


@graphs
@pytest.mark.filterwarnings("ignore:Sparse")
def test_graphs_are_matrices(graph):
    made = graph_of(graph, 5, 200)
    assert made.nodes == 32 or graph in ("proteins", "karate")
    assert len(made.row) == len(made.col)
    assert len(made.row) == 200 or graph in ("proteins", "karate")
    matrix = matrix_of(made, torch.int64)
    crow, col = matrix.crow_indices(), matrix.col_indices()
    torch.sparse_csr_tensor(crow, col, matrix.values(), (made.nodes, made.nodes))
    assert int(crow[-1]) == len(made.row)
    assert 0 <= int(col.min()) <= int(col.max()) < made.nodes
    assert torch.equal(matrix_of(graph_of(graph, 5, 200), torch.int64).values(), matrix.values())


def test_ends_are_those_of_the_matrix():
    graph = graph_of("rmat", 5, 200)
    begin, end = ends_of(graph, torch.int32)
    assert begin.dtype == end.dtype == torch.int32
    matrix = matrix_of(graph, torch.int64)
    counts = torch.zeros(32, dtype=torch.int64).index_add_(0, end, torch.ones(200).long())
    assert torch.equal(counts, matrix.crow_indices().diff())
    assert torch.equal(begin.sort().values.long(), matrix.col_indices().sort().values)


@pytest.mark.parametrize(
    ("sigma", "nodes", "most"), [(REDDIT, 232_965, 44), (PRODUCTS, 2_449_029, 346)]
)
def test_skew_is_that_of_the_real_graph(sigma, nodes, most):
    graph = chung_lu(sigma, nodes, nodes, np.random.default_rng(1))
    found = np.bincount(graph.row).max()
    assert most / 2 < found < most * 2


def test_small_graphs_have_no_edge_between_two():
    random = np.random.default_rng(1)
    sizes = sizes_of_graphs(500, 39.06, random)
    assert sizes.min() >= 2
    assert sizes.mean() == pytest.approx(39.06, rel=0.15)
    graph, batch = small_graphs(sizes, 3.7, random)
    assert graph.nodes == len(batch) == sizes.sum()
    assert np.array_equal(batch[graph.row], batch[graph.col])
    assert len(graph.row) == round(graph.nodes * 3.7)


def test_bounds():
    matrix = matrix_of(graph_of("uniform", 5, 200), torch.int64)
    every, once = spmm._bounds(matrix, 10, 1.0)
    assert every == 200 * (8 + 4) + 32 * (8 + 40) + 200 * 40
    assert once == 200 * (8 + 4) + 32 * (8 + 40) + 32 * 40


@pytest.mark.skipif(bool(_plugin.missing()), reason=_plugin.missing())
@graphs
def test_sampler_end_to_end(graph, tmp_path, capsys):
    path = tmp_path / "out.json"
    small = ("--scale", "6", "--edges", "900", "--batch", "9", "--rounds", "1", "--budget", "0.1")
    sampler.main([*small, "--graph", graph, "--threads", "1,2", "--json", str(path)])
    rows = json.loads(path.read_text())["rows"]
    assert [row["name"] for row in rows] == list(sampler.CASES)
    for row in rows:
        ours = {"cpuaccel, 1 thread", "cpuaccel, 2 threads"}
        assert ours <= set(row["times"])
        assert len({row["edges"][name] for name in ours}) == 1
        for name, rate in row["edges_per_second"].items():
            seconds = row["times"][name]["median_ms"] / 1e3
            assert rate == pytest.approx(row["edges"][name] / seconds)
    assert "edges sampled per second" in capsys.readouterr().out
