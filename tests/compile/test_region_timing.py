"""`mode="max-autotune"`: regions are timed against Inductor, and the slower is dropped."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from compile import _pt2e
from compile._compiled import Lambda, needs_onednn, seen
from cpuaccel import config
from cpuaccel.compile.validate import region_timing

pytestmark = needs_onednn

_TIMED = re.compile(r"timed: region [\d.]+ (ms|us), Inductor [\d.]+ (ms|us)$")


@pytest.fixture(autouse=True)
def _timed(_deterministic: None) -> None:
    config.set("deterministic", False)


def _model() -> nn.Module:
    torch.manual_seed(0)
    return Lambda(lambda self, x: F.relu(self.conv(x)), conv=nn.Conv2d(4, 8, 3))


def _x() -> Tensor:
    return torch.randn(1, 4, 10, 10)


def _tell(monkeypatch: pytest.MonkeyPatch, region: float, inductor: float) -> list[str]:
    """Make every region take these times; return what was timed."""
    asked: list[str] = []

    def times(found: Any, patches: Any) -> region_timing.Times:
        asked.append(found.plan_text.text)
        return region_timing.Times(region, inductor)

    monkeypatch.setattr(region_timing, "time_region", times)
    return asked


@pytest.mark.parametrize("mode", ["max-autotune", "max-autotune-no-cudagraphs"])
def test_the_faster_is_taken(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _tell(monkeypatch, 1e-3, 2e-3)
    found = seen(_model(), _x(), mode=mode)
    assert found.kinds() == [("Convolution", "ReLU")]
    assert found.regions[0][0].reason.endswith("; timed: region 1.00 ms, Inductor 2.00 ms")
    assert len(asked) == 1


def test_a_slower_region_is_a_fallback_with_the_times(monkeypatch: pytest.MonkeyPatch) -> None:
    _tell(monkeypatch, 2e-3, 1e-3)
    model = _model()
    found = seen(model, _x(), mode="max-autotune")
    assert not found.regions
    assert [left.reason for left in found.left] == [
        "timed: region 2.00 ms, Inductor 1.00 ms",
        "timed: region 2.00 ms, Inductor 1.00 ms",
    ]


def test_times_are_of_this_machine() -> None:
    found = seen(_model(), _x(), mode="max-autotune")
    reasons = [part.reason for region in found.regions for part in region]
    reasons += [left.reason for left in found.left]
    assert reasons
    assert all(_TIMED.search(reason) for reason in reasons), reasons


def test_dynamic_sizes_are_timed_as_they_were_traced() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 24), nn.GELU(), nn.Linear(24, 16)).eval()
    with torch.no_grad():
        compiled = torch.compile(model, backend="cpuaccel", dynamic=True, mode="max-autotune")
        for rows in (5, 9):
            x = torch.randn(rows, 16)
            torch.testing.assert_close(compiled(x), model(x), atol=1e-5, rtol=1e-4)


def test_options_ask_for_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _tell(monkeypatch, 1e-3, 2e-3)
    seen(_model(), _x(), options={"max_autotune": True})
    assert asked


def test_without_it_nothing_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _tell(monkeypatch, 1e-3, 2e-3)
    seen(_model(), _x())
    assert not asked


def test_nor_where_nothing_may_be_chosen_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    config.set("deterministic", True)
    asked = _tell(monkeypatch, 2e-3, 1e-3)
    assert seen(_model(), _x(), mode="max-autotune").regions
    assert not asked


def test_a_region_that_cannot_be_timed_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> region_timing.Times:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(region_timing, "time_region", fails)
    found = seen(_model(), _x(), mode="max-autotune")
    assert found.regions[0][0].reason.endswith("; not timed: no compiler")


def test_quantized_layers_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _tell(monkeypatch, 2e-3, 1e-3)
    x = _x()
    model = nn.Sequential(nn.Conv2d(4, 8, 3), nn.ReLU()).eval()
    with torch.no_grad():
        quantized = _pt2e.quantized(model, x)
    found = seen(quantized, x, mode="max-autotune")
    assert any("q_conv" in part.kinds for part in found.regions[0])
    assert not asked
