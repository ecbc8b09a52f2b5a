"""The table of matrix products: reading, writing, bad files, which rows apply; tuning."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cpuaccel import config, matmul
from cpuaccel.__main__ import main
from cpuaccel._cli.tune import timing
from cpuaccel.matmul import MatmulRow

_ROW = MatmulRow("GenuineIntel", "avx512", "bfloat16", 4, 0, "onednn", "1.50", "a test, here")


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "matmul.csv"
    rows = [
        _ROW,
        replace(_ROW, max_M=0, max_work=4096, provider="intree", measured='with "quotes"'),
    ]
    matmul.write(path, rows)
    assert matmul.read(path) == rows
    assert [file.name for file in path.parent.iterdir()] == ["matmul.csv"]


def test_the_table_of_the_package_is_sound() -> None:
    rows = matmul.read(matmul.TABLE)
    assert rows
    for row in rows:
        row.check()
        assert row.measured


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "float64"}, "dtype: expected one of float32, bfloat16, float16, got 'float64'"),
        (
            {"isa": "sse"},
            "isa: expected one of avx2, avx512, amx, neon, dotprod, i8mm, sve, got 'sse'",
        ),
        ({"provider": "mkl"}, "provider: expected one of cpuaccel, onednn, intree, got 'mkl'"),
        ({"max_M": -1}, "max_M: expected 0 (any) or more, got -1"),
    ],
)
def test_a_bad_value_is_named_with_its_line(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    path = tmp_path / "matmul.csv"
    matmul.write(path, [_ROW, replace(_ROW, **change)])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=re.escape(f"{path}, line 3: {message}")):
        matmul.read(path)


@pytest.mark.parametrize("text", ["", "vendor,isa\n", "no table at all"])
def test_a_file_without_the_columns_is_rejected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "matmul.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match="expected the columns vendor,isa,dtype"):
        matmul.read(path)


def _in_a_new_process(code: str, table: Path) -> str:
    environment = os.environ | {"CPUACCEL_MATMUL_TABLE": str(table)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=table.parent,  # in the checkout, Python would import the sources
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout + done.stderr


_PROVIDER_OF_MM = """
import torch, cpuaccel
torch.mm(torch.ones(5, 7), torch.ones(7, 3))
print(*(name for name in cpuaccel.stats()["calls"] if name.startswith("mm.")))
"""


@pytest.mark.parametrize("provider", ["cpuaccel", "onednn", "intree"])
def test_rows_of_this_machine_go_first(tmp_path: Path, provider: str) -> None:
    vendor, isa = matmul.machine()
    table = tmp_path / "matmul.csv"
    others = MatmulRow("NobodysCpu", isa, "float32", 0, 0, "intree", "", "")
    mine = MatmulRow(vendor, isa, "float32", 0, 0, provider, "", "")
    matmul.write(table, [others, mine])
    assert _in_a_new_process(_PROVIDER_OF_MM, table).strip() == f"mm.{provider}"


def test_a_bad_table_is_warned_of_and_does_no_harm(tmp_path: Path) -> None:
    table = tmp_path / "matmul.csv"
    table.write_text("no table\n")
    printed = _in_a_new_process(_PROVIDER_OF_MM, table)
    assert "cpuaccel ignores a table of matrix products" in printed
    assert "mm." in printed


def test_tune_writes_rows_for_this_machine_and_keeps_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(timing, "BUCKETS", (timing.Bucket(0, 0, ((2, 3, 4),)),))
    path = tmp_path / "matmul.csv"
    matmul.write(path, [_ROW])
    assert main(["tune", "--dtypes", "float32", "--rounds", "1", "--out", str(path)]) == 0
    found = matmul.read(path)
    assert (found[0].vendor, found[0].isa) == matmul.machine()
    assert found[0].dtype == "float32"
    assert found[0].provider in matmul.PROVIDERS
    assert found[1:] == [_ROW]
    assert config.get("matmul_provider") == "auto"
    assert "float32, any other: " in capsys.readouterr().out


def test_tune_writes_nothing_when_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(timing, "BUCKETS", (timing.Bucket(4, 0, ((2, 3, 4),)),))
    path = tmp_path / "matmul.csv"
    main(["tune", "--dtypes", "float16", "--rounds", "1", "--out", str(path), "--dry-run"])
    assert not path.exists()
    assert "float16, M <= 4: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dtypes", "float64"], "expected some of float32,bfloat16,float16, got 'float64'"),
        (["--rounds", "0"], "expected 1 or more, got '0'"),
    ],
)
def test_tune_names_a_bad_argument(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["tune", *arguments])
    assert message in capsys.readouterr().err
