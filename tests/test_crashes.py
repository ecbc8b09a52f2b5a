"""The report of a test includes the stacks of its crashed worker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_TEST = """
import os

def _here():
    os.abort()

def test_one():
    _here()

def test_two():
    pass
"""


def test_report_names_the_function(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    (tmp_path / "test_it.py").write_text(_TEST)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "_crashes", "--numprocesses", "1", str(tmp_path)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "1 failed, 1 passed" in done.stdout
    report = done.stdout.partition("where gw0 crashed")[2]
    assert "Fatal Python error: Aborted" in report
    assert "in _here" in report.partition("in test_one")[0]
