"""Models quantized on x86, under its engines, load under "onednn" and give x86's results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from quant._engine import engine
from torch import Tensor, nn

import cpuaccel
from aarch64._int8 import counted
from aarch64.int8_x86 import ENGINES, FILE, dynamic, float_model, inputs, load, quantized

made_by = pytest.mark.parametrize("made", ENGINES, indirect=True)
LAYERS = ("conv2d.cpuaccel", "linear.cpuaccel")


@pytest.fixture
def made(request: pytest.FixtureRequest) -> dict[str, Any]:
    return torch.load(FILE, weights_only=True)[getattr(request, "param", "x86")]


@pytest.fixture(autouse=True)
def _onednn() -> Iterator[None]:
    with engine("onednn"), torch.no_grad():
        yield


def _assert_gives(model: nn.Module, expected: Tensor) -> None:
    """Results sum quanta of a hidden layer, of which x86 and Arm may round one differently."""
    with counted(*LAYERS):
        found = model(inputs())
    quantum = _quantum(expected)
    assert float((found - expected).abs().max()) <= 1.01 * quantum
    assert float((found != expected).float().mean()) <= 0.1


def _quantum(values: Tensor) -> float:
    """The quantum of numbers that were quint8."""
    steps = values.flatten().sort().values.diff()
    return float(steps[steps > 1e-6].min())


@made_by
def test_a_state_dict(made: dict[str, Any]) -> None:
    model = quantized(float_model(), "x86")
    model.load_state_dict(load(made, "state_dict", torch.load, weights_only=False))
    _assert_gives(model, made["expected"])


def test_torchscript(made: dict[str, Any]) -> None:
    _assert_gives(load(made, "script", torch.jit.load), made["expected"])


def _assert_gives_dynamically(model: nn.Module, expected: Tensor) -> None:
    with counted("linear_dynamic.cpuaccel"):
        found = model(inputs().reshape(-1, 48))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@made_by
def test_a_dynamic_layer(made: dict[str, Any]) -> None:
    model = dynamic()
    model.load_state_dict(load(made, "dynamic", torch.load, weights_only=False))
    _assert_gives_dynamically(model, made["dynamic_expected"])


def test_a_whole_module(made: dict[str, Any]) -> None:
    model = load(made, "module", torch.load, weights_only=False)
    _assert_gives_dynamically(model, made["dynamic_expected"])


def test_another_engine_loads_it_as_torch_does(made: dict[str, Any]) -> None:
    with engine("qnnpack"):
        cpuaccel.reset_stats()
        found = load(made, "script", torch.jit.load)(inputs())
        assert not [name for name in cpuaccel.stats()["calls"] if name in LAYERS]
        with cpuaccel.enabled(False):
            expected = load(made, "script", torch.jit.load)(inputs())
    assert torch.equal(found, expected)
