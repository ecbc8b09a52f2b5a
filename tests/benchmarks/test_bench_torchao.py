"""The benchmark of torchao's int8 models, on the smallest one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("torchao", reason="torchao is not installed")

from benchmarks.models import torchao_int8


@pytest.mark.parametrize("kind", torchao_int8.KINDS)
def test_every_kind(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "results.json"
    columns = "torchao,cpuaccel,optimized,quantize_dynamic,quantize_dynamic_optimized,float"
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


def test_a_peer_is_another_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "results.json"
    torchao_int8.main(
        [
            *("--models", "bert-tiny", "--lengths", "5", "--columns", "cpuaccel"),
            *("--peers", sys.executable, "--rounds", "1", "--json", str(file)),
        ]
    )
    row = json.loads(file.read_text())["rows"][0]
    version = torch.__version__.partition("+")[0]
    assert set(row["times"]) == {"cpuaccel", f"torchao {version}", f"inductor {version}"}
    assert all(each["rounds"] == 1 for each in row["times"].values())
    assert f"inductor {version}" in capsys.readouterr().out.replace("\n", " ")
