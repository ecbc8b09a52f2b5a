"""benchmarks.ops.half_linear measures what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from quant._engine import needs_plugin

from benchmarks.ops import half_linear

pytestmark = needs_plugin


def test_a_row_and_its_rates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(half_linear, "LAYERS", {"small": (64, 64)})
    monkeypatch.setattr(half_linear, "_MOST_OF_COPIES", 1)
    file = tmp_path / "rows.json"
    threads = torch.get_num_threads()
    half_linear.main(
        ["--rows", "1", "--rounds", "1", "--columns", "fp32,bf16,torch_fp16", "--json", str(file)]
    )
    torch.set_num_threads(threads)
    (row,) = json.loads(file.read_text())["rows"]
    assert row["name"] == "small 64x64 m1"
    assert row["weights"] == 64 * 64
    assert "small 64x64 m1, GB/s: fp32" in capsys.readouterr().out
