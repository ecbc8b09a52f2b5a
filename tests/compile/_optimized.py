"""Small models for `cpuaccel.optimize`, and plans that are made wrong or slow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from quant._engine import torch_ao_is_blocked
from torch import Tensor, nn

from compile import _pt2e
from compile._compiled import Net, randomized
from cpuaccel import _interleaved_timing, config
from cpuaccel.compile.frontend import capture_maker, symbolic_ahead


def net() -> Net:
    """Return a convolution, batch norm, ReLU and a linear layer, most of which a plan takes."""
    torch.manual_seed(0)
    model = Net(
        lambda self, x: self.linear(F.relu(self.norm(self.conv(x))).mean((2, 3))),
        conv=nn.Conv2d(3, 8, 3),
        norm=nn.BatchNorm2d(8),
        linear=nn.Linear(8, 5),
    )
    randomized(model)
    return model.eval()


def image(batch: int = 2) -> Tensor:
    return torch.randn(batch, 3, 10, 10, generator=torch.Generator().manual_seed(batch))


def quantized(model: nn.Module) -> nn.Module:
    """Return convert_fx's int8 form of `model`, or, in a run without torch.ao, PT2E's."""
    if torch_ao_is_blocked():
        with torch.no_grad():
            return _pt2e.quantized(model, image(3))
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

    prepared = prepare_fx(model, get_default_qconfig_mapping("x86"), (image(),))
    for batch in (2, 3):
        prepared(image(batch))
    return convert_fx(prepared)


def change_plans(monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], Any]) -> None:
    """Make captures return `change` of their results."""

    def changing(make: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*args: Any, **kwargs: Any) -> Any:
            made = make(*args, **kwargs)
            return replace(made, run=lambda *args, **kwargs: change(made.run(*args, **kwargs)))

        return changed

    for module, name in (
        (capture_maker, "capture"),
        (symbolic_ahead, "capture"),
        (symbolic_ahead, "with_plan_texts"),
    ):
        monkeypatch.setattr(module, name, changing(getattr(module, name)))


def take(monkeypatch: pytest.MonkeyPatch, **seconds: float) -> list[list[str]]:
    """Make calls take `seconds`, by name (`_` for a blank); return what is timed, call by call."""
    timed: list[list[str]] = []

    def within(calls: dict[str, Any], budget: float) -> dict[str, list[float]]:
        timed.append(list(calls))
        for call in calls.values():
            call()
        return {name: [seconds[name.replace(" ", "_")]] * 5 for name in calls}

    monkeypatch.setattr(_interleaved_timing, "within", within)
    config.set("deterministic", False)
    return timed
