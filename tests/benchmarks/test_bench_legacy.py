"""The benchmark of loaded int8 models, on one layer."""

from __future__ import annotations

import pytest
from compile._compiled import needs_onednn

from benchmarks.models import legacy

pytestmark = needs_onednn


def test_a_linear_layer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(legacy, "_SECONDS", 0.001)
    legacy.main(["--models", "linear_2"])
    printed = capsys.readouterr().out
    assert "linear_2" in printed
    assert "ops over plans" in printed
