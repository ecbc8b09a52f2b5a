"""The table of decoders with plans, of one family."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.models import _decoders, decoder_coverage

if _reason := _decoders.missing():
    pytest.skip(_reason, allow_module_level=True)


def test_one_family(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "results.json"
    decoder_coverage.main(
        [
            *("--families", "Llama", "--formats", "fp32", "--ways", "eager,optimize"),
            *("--tokens", "4", "--json", str(file)),
        ]
    )
    eager, optimized = json.loads(file.read_text())
    assert optimized["plans"] == "prompts, steps of 1"
    for each in (eager, optimized):
        assert each["tokens"] == 4
        assert each["scores"] < 1e-5
    assert "Llama" in capsys.readouterr().out
