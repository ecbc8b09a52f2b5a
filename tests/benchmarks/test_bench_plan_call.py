"""The benchmark of a call of an optimized model, on a model of three modules."""

from __future__ import annotations

import pytest
from compile._compiled import needs_onednn

from benchmarks.models import plan_call

pytestmark = needs_onednn


def test_it_prints_each_column(capsys: pytest.CaptureFixture[str]) -> None:
    plan_call.main(["--modules", "2", "--rounds", "3"])
    printed = capsys.readouterr().out
    assert all(column in printed for column in ("2 modules", *plan_call.COLUMNS))
    assert "Python 3." in printed
