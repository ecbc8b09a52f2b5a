"""benchmarks.gnn.roofline: its bounds checked by hand, and an end-to-end run on small graphs."""

import json

import pytest

from benchmarks import _machine, _plugin
from benchmarks.gnn import roofline
from benchmarks.gnn._graphs import GRAPHS
from benchmarks.gnn.roofline import Machine, Size

_HOLDS = {"L1": 100, "L2": 1_000, "L3": 100_000}
_RATES = {"L1": 8.0, "L2": 4.0, "L3": 2.0, "memory": 1.0}


def test_places():
    machine = Machine(_HOLDS, _RATES)
    assert [machine.place(size) for size in (100, 101, 100_000, 100_001)] == [
        *("L1", "L2", "L3", "memory")
    ]
    assert machine.seconds(10, 1_000) == 2.5


def test_a_cache_of_unknown_rate_is_left_out():
    assert Machine({"L2": 10, "L4": 1_000}, _RATES).place(100) == "memory"


def test_bounds_of_a_size():
    size = Size(nodes=10, edges=50, columns=4)
    assert size.rows == 160
    assert size.all == 50 * 8 + 11 * 4 + 2 * 160
    machine = Machine(_HOLDS, _RATES)
    assert size.once(machine) == size.all / 4
    assert size.every_row(machine) == 50 * 16 / 4 + (size.all - 160) / 4


def test_caches_are_in_order():
    sizes = list(_machine.caches().values())
    assert sizes == sorted(sizes)
    assert _machine.last_cache() >= max(sizes, default=0)


def test_end_to_end(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    rates = iter([{**_RATES, "L2": 1e9}, {**_RATES, "memory": 3e9}])
    monkeypatch.setattr(roofline, "reading", lambda: lambda: next(rates))
    path, plot = tmp_path / "out.json", tmp_path / "out.png"
    small = ("--least", "5", "--most", "7", "--columns", "4", "--rounds", "1", "--budget", "0")
    roofline.main([*small, "--json", str(path), "--plot", str(plot)])
    rows = json.loads(path.read_text())["rows"]
    assert [(row["nodes"], row["edges"]) for row in rows] == [(32, 1024), (64, 2048), (128, 4096)]
    for row in rows:
        assert set(row["times"]) == ({"torch"} if _plugin.missing() else {"torch", "cpuaccel"})
        assert set(row["bounds_ns_per_edge"]) == {"every row", "once"}
    out = capsys.readouterr().out
    assert "read L2: 1.0 GB/s" in out
    assert "read memory: 3.0 GB/s" in out
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_without_peaks_there_are_no_bounds(tmp_path):
    path = tmp_path / "out.json"
    tiny = ("--least", "5", "--most", "5", "--rounds", "1", "--budget", "0", "--no-peaks")
    roofline.main([*tiny, "--json", str(path)])
    assert json.loads(path.read_text())["rows"][0]["bounds_ns_per_edge"] == {}


def test_unknown_graph():
    assert "nothing" not in GRAPHS
    with pytest.raises(SystemExit, match="unknown graph 'nothing'; known: "):
        roofline.main(["--graph", "nothing"])
