"""The allocator benchmark: its output for one small program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from quant._engine import needs_plugin

from benchmarks.memory import allocators


@needs_plugin
def test_figures_of_each_allocator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    allocators.main(
        ["--workloads", "index_select out", "--rounds", "1", "--steps", "2", "--json", str(file)]
    )
    row = json.loads(file.read_text())["workloads"]["index_select out"]
    assert {"torch", "cpuaccel"} <= set(row)
    for figures in row.values():
        assert figures["steps"] == 2
        assert figures["median_ms"] > 0
        assert figures["peak_bytes"] > 2**30
    assert "index_select out" in capsys.readouterr().out


def test_unknown_workload() -> None:
    with pytest.raises(SystemExit, match="unknown workload 'x'; known: index_select"):
        allocators.main(["--workloads", "x"])
