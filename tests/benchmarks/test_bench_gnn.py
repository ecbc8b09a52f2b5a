"""The benchmarks of graphs, from end to end on little."""

import json

import pytest
import torch

from benchmarks import _plugin
from benchmarks.gnn import sampler, scatter, spmm
from benchmarks.gnn._graphs import GRAPHS, adjacency, edges_of

_LITTLE = ("--scale", "6", "--edges", "300", "--rounds", "1")
_SMALL = (*_LITTLE, "--no-peaks")


@pytest.mark.parametrize("graph", GRAPHS)
def test_spmm_end_to_end(graph, tmp_path, capsys):
    path = tmp_path / "out.json"
    spmm.main([*_SMALL, "--graph", graph, "--columns", "3", "--json", str(path)])
    rows = json.loads(path.read_text())["rows"]
    assert [row["case"] for row in rows] == list(spmm.CASES)
    for row in rows:
        assert set(row["times"]) == ({"torch"} if _plugin.missing() else {"torch", "cpuaccel"})
        if not _plugin.missing():
            assert row["calls"]
    assert "sparse products" in capsys.readouterr().out


@pytest.mark.parametrize("graph", GRAPHS)
def test_scatter_end_to_end(graph, tmp_path, capsys):
    path = tmp_path / "out.json"
    scatter.main([*_LITTLE, "--graph", graph, "--columns", "1,5", "--json", str(path)])
    rows = json.loads(path.read_text())["rows"]
    assert len(rows) == 2 * 2 * len(scatter.CASES)
    for row in rows:
        assert set(row["times"]) == ({"torch"} if _plugin.missing() else {"torch", "cpuaccel"})
        if not _plugin.missing() and not row["name"].startswith("K 1, segment"):  # torch's
            assert row["calls"]
    assert "rows reduced and read" in capsys.readouterr().out


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
    with pytest.raises(SystemExit, match="unknown name 'nothing'"):
        training.main(["--models", "nothing"])


@pytest.mark.parametrize(
    ("run", "small"),
    [(spmm.main, _SMALL), (scatter.main, _LITTLE), (sampler.main, ("--scale", "6"))],
)
def test_unknown_names(run, small):
    for flags in (("--graph", "nothing"), ("--cases", "nothing")):
        with pytest.raises(SystemExit, match="unknown name 'nothing'; known: "):
            run([*small, *flags])


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.filterwarnings("ignore:Sparse")
def test_graphs_are_matrices(graph):
    matrix = adjacency(graph, 5, 200, torch.int64)
    torch.sparse_csr_tensor(matrix.crow_indices(), matrix.col_indices(), matrix.values(), (32, 32))
    crow, col = matrix.crow_indices(), matrix.col_indices()
    assert int(crow[-1]) == 200
    assert int(col.min()) >= 0
    assert int(col.max()) < 32
    assert torch.equal(adjacency(graph, 5, 200, torch.int64).values(), matrix.values())


def test_edges_are_those_of_the_matrix():
    begin, end = edges_of("rmat", 5, 200, torch.int32)
    assert begin.dtype == end.dtype == torch.int32
    matrix = adjacency("rmat", 5, 200, torch.int64)
    counts = torch.zeros(32, dtype=torch.int64).index_add_(0, end, torch.ones(200).long())
    assert torch.equal(counts, matrix.crow_indices().diff())
    assert torch.equal(begin.sort().values.long(), matrix.col_indices().sort().values)


def test_bounds():
    matrix = adjacency("uniform", 5, 200, torch.int64)
    every, once = spmm._bounds(matrix, 10, 1.0)
    assert every == 200 * (8 + 4) + 32 * (8 + 40) + 200 * 40
    assert once == 200 * (8 + 4) + 32 * (8 + 40) + 32 * 40


@pytest.mark.skipif(bool(_plugin.missing()), reason=_plugin.missing())
@pytest.mark.parametrize("graph", GRAPHS)
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
    assert "edges sampled a second" in capsys.readouterr().out
