"""Quantized models computed in float64 between their quantizers, the reference for rounding."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from quant._engine import needs_torch_ao
from torch import Tensor, nn

import cpuaccel
from compile import _pt2e
from compile._compiled import Net, needs_onednn
from compile._optimized import change_plans, image, net, quantized
from cpuaccel.compile.validate import float64_reference

pytestmark = needs_onednn


@pytest.fixture(autouse=True)
def _engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.quantized, "engine", "x86")
    torch.manual_seed(0)


def _near(found: Any, expected: Tensor) -> None:
    """Asserts a difference of at most one step of the last quantizer."""
    assert found.dtype == torch.float64
    atol = (expected.max() - expected.min()).item() / 100
    torch.testing.assert_close(found.float(), expected, atol=atol, rtol=0)


def test_a_layer_by_hand() -> None:
    layer = nn.Linear(8, 5).eval()
    model = _pt2e.quantized(Net(lambda self, x: self.layer(x), layer=layer), torch.randn(4, 8))
    x = torch.randn(4, 8)
    seen: list[tuple[Tensor, ...]] = []
    linear = torch.nn.functional.linear
    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.nn.functional.linear", lambda *a: seen.append(a) or linear(*a))
        model(x)
    ((source, weight, bias),) = seen
    found = float64_reference.result(model, (x,), {})
    exact = linear(source.double(), weight.double(), bias.double())
    # The model's own inputs and weights are rounded to float32.
    torch.testing.assert_close(found, exact, atol=1e-5, rtol=1e-5)


def test_errors_like_those_of_float32() -> None:
    x = torch.randn(4, 8)
    model = _pt2e.quantized(Net(lambda self, x: self.layer(x), layer=nn.Linear(8, 5)).eval(), x)
    reference = float64_reference.Reference(model, (x,), {})
    exact, other, again = (reference.result(error) for error in (0.0, 2**-24, 2**-24))
    assert torch.equal(other, again)
    assert not torch.equal(other, exact)
    torch.testing.assert_close(other, exact, atol=1e-6, rtol=1e-6)


def test_models_of_each_workflow() -> None:
    x = image()
    with torch.no_grad():
        model = quantized(net())
        _near(float64_reference.result(model, (x,), {}), model(x))
        model = _pt2e.quantized(net(), x)
        _near(float64_reference.result(model, (x,), {}), model(x))


@needs_torch_ao
def test_layers_that_choose_their_quantizers() -> None:
    from torch.ao.quantization import QConfigMapping, default_dynamic_qconfig
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

    x = torch.randn(5, 24)
    mapping = QConfigMapping().set_global(default_dynamic_qconfig)
    linear = Net(lambda self, x: self.linear(x), linear=nn.Linear(24, 40)).eval()
    model = convert_fx(prepare_fx(linear, mapping, (x,)))
    with torch.no_grad():
        _near(float64_reference.result(model, (x,), {}), model(x))


@pytest.mark.parametrize(("times", "runs"), [(0.99, "plan"), (1.2, "model")])
def test_a_plan_beyond_the_bound_is_still_rejected(
    times: float, runs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = quantized(net())
    change_plans(monkeypatch, lambda result: result * times)
    verdict = cpuaccel.optimize(model, (image(),)).verdict
    assert verdict is not None
    assert verdict.runs == runs
    if runs == "model":
        assert "from the model in float64" in str(verdict)
