"""The benchmark of torchao's int8 models, on the smallest one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torchao", reason="torchao is not installed")

from benchmarks.models import torchao_int8


@pytest.mark.parametrize("kind", torchao_int8.KINDS)
def test_every_kind(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "results.json"
    columns = "torchao,cpuaccel,quantize_dynamic,float"
    torchao_int8.main(
        [
            *("--models", "bert-tiny", "--lengths", "5", "--columns", columns, "--kind", kind),
            *("--rounds", "1", "--budget", "0.01", "--json", str(file)),
        ]
    )
    row = json.loads(file.read_text())["rows"][0]
    assert row["name"] == "bert-tiny 5 tokens"
    assert "torchao" in row["times"]
    assert "torchao int8" in capsys.readouterr().out
