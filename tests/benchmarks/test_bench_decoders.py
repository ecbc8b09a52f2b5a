"""The benchmark of decoders, on the smallest one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.models import _decoders, decoders

if _reason := _decoders.missing():
    pytest.skip(_reason, allow_module_level=True)


@pytest.mark.parametrize("number_format", ["fp32", "a8w8"])
def test_tokens_and_prompts(
    number_format: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if number_format != "fp32":
        pytest.importorskip("torchao", reason="torchao is not installed")
    file = tmp_path / "results.json"
    decoders.main(
        [
            *(
                "--models",
                "tiny",
                "--formats",
                number_format,
                "--columns",
                "torch,optimized,model_attention",
            ),
            *("--contexts", "8", "--prompts", "5", "--tokens", "2", "--rounds", "1"),
            *("--json", str(file)),
        ]
    )
    rows = json.loads(file.read_text())["rows"]
    assert [row["name"] for row in rows] == [
        f"tiny {number_format} at 8",
        f"tiny {number_format} prompt 5",
    ]
    for row in rows:
        assert row["times"].keys() == {"torch", "optimized", "model_attention"}
    assert f"tiny {number_format} at 8: 0 MB" in capsys.readouterr().out
