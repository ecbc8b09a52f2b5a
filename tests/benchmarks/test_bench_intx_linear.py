"""benchmarks.ops.intx_linear measures what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from quant._engine import needs_plugin

from benchmarks.ops import intx_linear
from benchmarks.ops.intx_linear import Weights

pytestmark = needs_plugin


@pytest.mark.parametrize("bits", [4, 8])
def test_columns_multiply_by_the_same_weights(bits: int) -> None:
    torch.manual_seed(1)
    weights, x = Weights.random(bits, (96, 64), 2 if bits == 4 else 1), torch.randn(5, 64)
    expected = x @ weights.floats().T
    for column in ("cpuaccel", "cpuaccel_a8", "float", "float_cpuaccel", "aten"):
        result = intx_linear._MAKERS[column](weights, x=x)()
        assert torch.allclose(result.float(), expected, atol=0.02 * float(expected.abs().max()))  # type: ignore[attr-defined]


def test_a_row_and_its_share_of_the_bandwidth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(intx_linear, "LAYERS", {"small": (64, 64)})
    monkeypatch.setattr(intx_linear, "_copies", lambda column, weights, make: make(weights))
    monkeypatch.setattr(intx_linear, "read_bandwidth", lambda: 1e9)
    file = tmp_path / "rows.json"
    threads = torch.get_num_threads()
    intx_linear.main(
        ["--rows", "1", "--rounds", "1", "--columns", "cpuaccel,float", "--json", str(file)]
    )
    torch.set_num_threads(threads)
    (row,) = json.loads(file.read_text())["rows"]
    assert row["name"] == "small 64x64 m1"
    assert row["packed_bytes"] == 64 * (32 + 2 * 2)
    assert "read bandwidth: 1.0 GB/s" in capsys.readouterr().out
