"""Quantized models on torch's Arm engines: "onednn" runs on cpuaccel, "qnnpack" on torch."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from quant._engine import engine
from torch import nn
from torch.ao.quantization import get_default_qconfig_mapping, quantize_dynamic
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

import cpuaccel
from aarch64._int8 import counted

ENGINES = ("onednn", "qnnpack")


@pytest.fixture(params=ENGINES)
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each engine, set for the test."""
    with engine(request.param):
        yield request.param


def _model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1, groups=16),
        nn.Hardswish(),
        nn.Flatten(),
        nn.Linear(16 * 64, 10),
    ).eval()


def _quantized(model: nn.Module, x: torch.Tensor) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mapping = get_default_qconfig_mapping(torch.backends.quantized.engine)
        prepared = prepare_fx(model, mapping, (x,))
        prepared(x)
        return convert_fx(prepared)


def _dynamic(model: nn.Module) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return quantize_dynamic(model, {nn.Linear, nn.LSTM})


def _ran(name: str, *ops: str) -> Any:
    return counted(*(f"{op}.cpuaccel" for op in ops) if name == "onednn" else ())


def test_static(name: str) -> None:
    model, x = _model(), torch.randn(2, 8, 8, 8)
    with torch.no_grad():
        expected = model(x)
        with _ran(name, "conv2d", "linear", "hardswish", "quantize", "dequantize"):
            found = _quantized(model, x)(x)
    torch.testing.assert_close(found, expected, atol=0.03 * float(expected.abs().max()), rtol=0)


def test_dynamic(name: str) -> None:
    model, x = nn.Sequential(nn.Linear(64, 32)), torch.randn(4, 64)
    with torch.no_grad(), _ran(name, "linear_dynamic"):
        found, expected = _dynamic(model)(x), model(x)
    torch.testing.assert_close(found, expected, atol=0.05, rtol=0)


def test_lstm(name: str) -> None:
    model, x = nn.LSTM(16, 24), torch.randn(5, 2, 16)
    with torch.no_grad(), _ran(name, "linear_dynamic"):
        found, expected = _dynamic(nn.Sequential(model))(x)[0], model(x)[0]
    torch.testing.assert_close(found, expected, atol=0.05, rtol=0)


def test_a_saved_model_loads_again(name: str) -> None:
    model, x = _model(), torch.randn(2, 8, 8, 8)
    with torch.no_grad():
        first, second = (_quantized(model, x) for _ in range(2))
        file = io.BytesIO()
        torch.save(first.state_dict(), file)
        file.seek(0)
        second.load_state_dict(torch.load(file, weights_only=False))
        torch.testing.assert_close(second(x), first(x), atol=0, rtol=0)


def test_fused() -> None:
    x = torch.randn(2, 8, 8, 8)
    with engine("onednn"), torch.no_grad():
        model = _quantized(_model(), x)
        expected = model(x)
        found = cpuaccel.quant.fuse(model)(x)
    torch.testing.assert_close(found, expected, atol=0, rtol=0)


def test_explain_names_what_runs() -> None:
    x = torch.randn(2, 8, 8, 8)
    with engine("onednn"), torch.no_grad():
        model = _quantized(_model(), x)
        model(x)
    layers = [row for row in cpuaccel.explain(model).rows if row.problem]
    assert {row.provider for row in layers} == {"cpuaccel"}
    kernels = " ".join(row.kernel for row in layers)
    assert all(f"{family}:arm64_" in kernels for family in ("qconv", "dwconv", "qgemm"))
