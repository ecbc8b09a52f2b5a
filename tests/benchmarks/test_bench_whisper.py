"""benchmarks/models/whisper.py: a short run of it, where its packages are installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.models import whisper

if reason := whisper._missing():
    pytest.skip(reason, allow_module_level=True)


def test_it_times_and_compares_texts(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    columns = ["--columns", "torch,fp32,a8w8,faster_whisper"]
    whisper.main(["--repeats", "1", "--rounds", "1", "--json", str(path), *columns])
    found = json.loads(path.read_text())
    notes = [each for each in found["notes"] if "word error rate" in each]
    assert len(notes) >= 2
    assert all("word error rate 0.0%" in each for each in notes)
    assert [row["name"] for row in found["rows"]] == ["wall", "CPU"]
