"""`cpuaccel.save` after calls that do not change an optimized model."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import cpuaccel
from compile._compiled import needs_onednn
from compile._optimized import image, quantized

pytestmark = needs_onednn


def _net() -> nn.Module:
    torch.manual_seed(0)
    layers = (nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(8, 5)).eval()


_MODELS: dict[str, Callable[[], nn.Module]] = {
    "layers": _net,
    "traced": lambda: torch.fx.symbolic_trace(_net()),
    "int8": lambda: quantized(_net()),
}
_CALLS: dict[str, Callable[[Any], Any]] = {
    "pickle": pickle.dumps,
    "torch.save": lambda optimized: torch.save(optimized, io.BytesIO()),
    "eval": lambda optimized: optimized.eval(),
}


@pytest.mark.parametrize("call", _CALLS)
@pytest.mark.parametrize("name", _MODELS)
@torch.no_grad()
def test_it_is_saved(name: str, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.quantized, "engine", "x86")
    model, x = _MODELS[name](), image()
    optimized = cpuaccel.optimize(model, (x,), time_budget=0)
    expected = optimized(x)
    _CALLS[call](optimized)
    cpuaccel.save(optimized, tmp_path / "model.pt2")
    assert torch.equal(cpuaccel.load(tmp_path / "model.pt2")(x), expected)


@torch.no_grad()
def test_a_pickled_int8_model_is_optimized_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.quantized, "engine", "x86")
    model, x = quantized(_net()), image()
    optimized = cpuaccel.optimize(model, (x,), time_budget=0)
    loaded = pickle.loads(pickle.dumps(optimized))
    torch.testing.assert_close(loaded(x), optimized(x))
