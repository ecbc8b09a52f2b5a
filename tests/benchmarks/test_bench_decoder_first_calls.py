"""The benchmark of first calls of decoders, on the smallest one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compile._compiled import needs_onednn

from benchmarks.models import _decoders, decoder_first_calls

if _reason := _decoders.missing():
    pytest.skip(_reason, allow_module_level=True)


@needs_onednn
def test_cold_and_warm_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "results.json"
    decoder_first_calls.main(
        [
            *("--models", "tiny", "--formats", "bf16", "--prompt", "20", "--rounds", "1"),
            *("--through", "optimize", "--json", str(file)),
        ]
    )
    rows = json.loads(file.read_text())["rows"]
    assert len(rows) == len(decoder_first_calls.CALLS)
    printed = capsys.readouterr().out
    assert "captures from disk: cold 0" in printed
    assert "MB of memory: cold" in printed
    assert "MB of packed weights and cache: 0" in printed
