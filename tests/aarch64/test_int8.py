"""Quantized models on torch's engines for Arm, with the plugin on: the numbers of float, nearly."""

from __future__ import annotations

import io
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.ao.quantization import get_default_qconfig_mapping, quantize_dynamic
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

ENGINES = ("onednn", "qnnpack")


def _model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1, groups=16),
        nn.Hardswish(),
        nn.Flatten(),
        nn.Linear(16 * 64, 10),
    ).eval()


def _quantized(model: nn.Module, engine: str, x: torch.Tensor) -> Any:
    torch.backends.quantized.engine = engine
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepared = prepare_fx(model, get_default_qconfig_mapping(engine), (x,))
        prepared(x)
        return convert_fx(prepared)


@pytest.mark.parametrize("engine", ENGINES)
def test_static(engine: str) -> None:
    model, x = _model(), torch.randn(2, 8, 8, 8)
    with torch.no_grad():
        expected = model(x)
        found = _quantized(model, engine, x)(x)
    torch.testing.assert_close(found, expected, atol=0.03 * float(expected.abs().max()), rtol=0)


@pytest.mark.parametrize("engine", ENGINES)
def test_dynamic(engine: str) -> None:
    torch.backends.quantized.engine = engine
    model, x = nn.Sequential(nn.Linear(64, 32)), torch.randn(4, 64)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, expected = quantize_dynamic(model, {nn.Linear})(x), model(x)
    torch.testing.assert_close(found, expected, atol=0.05, rtol=0)


def test_a_saved_model_loads_again() -> None:
    model, x = _model(), torch.randn(2, 8, 8, 8)
    with torch.no_grad():
        first, second = (_quantized(model, "onednn", x) for _ in range(2))
        file = io.BytesIO()
        torch.save(first.state_dict(), file)
        file.seek(0)
        second.load_state_dict(torch.load(file, weights_only=False))
        torch.testing.assert_close(second(x), first(x), atol=0, rtol=0)
