"""benchmarks.gnn.blog: the rows of the announcement's table, and the share of graph kernels."""

import json

import pytest
import torch

from benchmarks import _plugin
from benchmarks.gnn._blog_rows import ROWS


def test_the_rows_of_the_table():
    assert len(ROWS) == len({row.name for row in ROWS}) == 12
    assert ROWS[0].name == "GCN-Reddit inference 512-2-64 dense"
    assert {row.name: row.blog for row in ROWS}["GCN-PROTEINS training 3-32"] == 1.67


@pytest.mark.skipif(bool(_plugin.missing()), reason=_plugin.missing())
@pytest.mark.filterwarnings("ignore")
def test_blog_end_to_end(tmp_path, capsys):
    pytest.importorskip("torch_geometric", exc_type=ImportError)
    from benchmarks.gnn import blog

    path = tmp_path / "out.json"
    tiny = ("--scale", "20000", "--batches", "1", "--rounds", "1", "--budget", "0")
    blog.main([*tiny, "--json", str(path)])
    rows = json.loads(path.read_text())["rows"]
    assert [row["name"] for row in rows] == [row.name for row in ROWS]
    for row in rows:
        assert set(row["times"]) == {"torch", "cpuaccel", "accelerated"}
        assert 0 < row["kernel_share"] < 1
        assert row["calls"]
    assert "announced" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="no row contains 'nothing': GCN-Reddit"):
        blog.main(["--rows", "nothing"])


def test_kernel_share():
    pytest.importorskip("torch_geometric", exc_type=ImportError)
    from benchmarks.gnn import blog

    x, index = torch.randn(20_000, 32), torch.randint(100, (20_000,))
    assert blog.kernel_share(lambda: x.new_zeros(100, 32).index_add_(0, index, x)) > 0.5
    assert blog.kernel_share(lambda: x.T @ x) == 0
