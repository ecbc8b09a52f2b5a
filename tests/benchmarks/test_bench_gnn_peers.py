"""Peers of the GNN benchmarks give torch's numbers, or a reason why they are missing."""

import json
import sys
from types import SimpleNamespace

import pytest
import torch

from benchmarks import _plugin
from benchmarks.gnn import _dgl, _peers, scatter, spmm
from benchmarks.gnn._graphs import graph_of, matrix_of

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")

# Every node has an edge: DGL gives no maximum for a node without edges, and a wrong gradient.
_INDEX = torch.tensor([3, 0, 2, 1, 0, 3])
_NODES = 4


def _without(module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)


@pytest.mark.parametrize("module", ["torch_scatter", "torch_sparse"])
def test_what_is_not_installed_is_said(module, monkeypatch):
    _without(module, monkeypatch)
    assert _peers.missing_reason(module).startswith("not installed (")


def test_dgl_is_left_out_with_a_reason(monkeypatch, tmp_path, capsys):
    _without("dgl", monkeypatch)
    _dgl.missing_reason.cache_clear()
    try:
        assert "requirements/peers-gnn.txt" in _dgl.missing_reason()
        path = tmp_path / "out.json"
        small = ("--scale", "4", "--edges", "50", "--rounds", "1", "--columns", "2", "--no-peaks")
        spmm.main([*small, "--cases", "sum", "--json", str(path)])
        assert "not measured: dgl, dgl, no values: not installed" in capsys.readouterr().out
        (row,) = json.loads(path.read_text())["rows"]
        assert "dgl" not in row["times"]
    finally:
        _dgl.missing_reason.cache_clear()


@pytest.mark.parametrize("name", _peers.PRODUCTS)
@pytest.mark.parametrize("case", spmm.CASES)
@pytest.mark.parametrize("index", [torch.int32, torch.int64])
def test_products_are_torch_s(name, case, index):
    peer = _peers.PRODUCTS[name]
    if reason := peer.missing():
        pytest.skip(reason)
    wanted = spmm.CASES[case]
    if wanted.values and not peer.weighted:
        pytest.skip("there are no values to learn")
    matrix = matrix_of(graph_of("uniform", 3, 60), index)
    assert int(matrix.crow_indices().diff().min()) > 0
    if not peer.weighted:
        matrix.values().fill_(1)
    x = torch.randn(8, 3)
    with _plugin.enabled(False):
        found = spmm._of_peer(wanted, peer.prepare(matrix), matrix.values(), x)
        expected = spmm._of_torch(wanted, matrix, x)
    if not wanted.step:
        torch.testing.assert_close(found, expected)
        return
    torch.testing.assert_close(found[0], expected[0])
    if wanted.values:
        torch.testing.assert_close(found[1], expected[1].values())


def _scatter(source, index, dim, dim_size, reduce):
    name = {"max": "amax"}.get(reduce, reduce)
    into = index[:, None].expand_as(source)
    zeros = source.new_zeros(dim_size, source.shape[1])
    return zeros.scatter_reduce(dim, into, source, name, include_self=False)


def _segment_csr(source, bounds, reduce):
    return torch._segment_reduce(source, reduce, offsets=bounds)


@pytest.mark.parametrize("name", _peers.ROWS)
def test_rows_are_torch_s(name, monkeypatch):
    if name == "torch_scatter" and _peers.ROWS[name].missing():
        # Stubs with the documented signatures: the test checks that they are called this way.
        module = SimpleNamespace(scatter=_scatter, segment_csr=_segment_csr)
        monkeypatch.setitem(sys.modules, "torch_scatter", module)
    if reason := _peers.ROWS[name].missing():
        pytest.skip(reason)
    edges = torch.randn(len(_INDEX), 3)
    with _plugin.enabled(False):
        calls = _peers.ROWS[name].prepare(_INDEX, _NODES)
        assert set(calls) <= set(scatter.CASES) - scatter.READING
        for case, call in calls.items():
            nodes = torch.full((_NODES, 3), float("step" in case))
            index = _INDEX.sort().values if case.startswith("segment") else _INDEX
            found = call(nodes.clone(), index, edges)
            expected = scatter.CASES[case](nodes.clone(), index, edges)
            for ours, theirs in zip(_tuple(found), _tuple(expected), strict=True):
                torch.testing.assert_close(ours, theirs)


def _tuple(result):
    return result if isinstance(result, tuple) else (result,)
