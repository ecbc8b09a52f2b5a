"""cpuaccel.optimize validates a plan against the model, and runs the model if they differ."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from quant._engine import needs_torch_ao
from torch import Tensor, nn

import cpuaccel
from compile._compiled import Lambda, needs_onednn
from compile._optimized import change_plans, image, net, quantized

pytestmark = needs_onednn


def _add_to_one(result: Tensor) -> Tensor:
    result = result.clone()
    result[1, 3] += 0.01
    return result


def _raise(_: Tensor) -> Tensor:
    raise RuntimeError("not today\nand why")


def test_a_plan_within_the_bound_runs() -> None:
    optimized = cpuaccel.optimize(net(), (image(),))
    verdict = optimized.verdict
    assert verdict is not None
    assert verdict.runs == "plan"
    assert verdict.inputs == "float32[2, 3, 10, 10]"
    assert verdict.reason == "not timed: CPUACCEL_DETERMINISTIC"
    assert verdict.arithmetic == "fp32"
    assert "1e-04" in verdict.bound or "0.0001" in verdict.bound
    assert verdict.difference is not None
    assert 0 <= verdict.difference.error <= verdict.difference.allowed == 1e-4
    assert not verdict.seconds
    assert optimized.verdicts == [verdict]
    assert f"optimize: {verdict}" in cpuaccel.explain(optimized).footer


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_add_to_one, r"at output\[1, 3\], at most 0.0001"),
        (lambda result: result * torch.nan, "nan from the model at output"),
        (lambda result: result[:1], r"output is float32\[1, 5\], the model's float32\[2, 5\]"),
        (lambda result: result.double(), r"output is float64\[2, 5\], the model's float32"),
        (lambda result: [result], "the result is "),
        (_raise, "the plan raises RuntimeError: not today"),
    ],
)
def test_a_plan_beyond_the_bound_does_not_run(
    change: Callable[[Any], Any],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    change_plans(monkeypatch, change)
    model = net()
    cpuaccel.reset_stats()
    optimized = cpuaccel.optimize(model, (image(),))
    assert optimized.verdict is not None
    assert optimized.verdict.runs == "model"
    assert optimized.verdict.reason == "the plan's results exceed the error bound"
    assert optimized.verdict.difference is not None
    assert not optimized.verdict.difference.is_within
    (said,) = (each.getMessage() for each in caplog.records if each.levelname == "WARNING")
    assert str(optimized.verdict) in said
    assert re.search(says, said)
    with torch.no_grad():
        assert torch.equal(optimized(image()), model(image()))
    assert cpuaccel.stats()["fallbacks"]["optimize: the plan's results exceed the error bound"] == 1
    assert not optimized.reports
    assert cpuaccel.explain(optimized).rows[0].layer.startswith("model.")


def test_sizes_that_come_later_are_compared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    model = net()
    change_plans(monkeypatch, lambda result: result if len(result) == 2 else result + 1)
    optimized = cpuaccel.optimize(model, (image(),))
    with torch.no_grad():
        for batch in (3, 2, 3):
            found, expected = optimized(image(batch)), model(image(batch))
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    assert [each.runs for each in optimized.verdicts] == ["plan", "model"]
    assert optimized.verdicts[0] is optimized.verdict


def test_a_model_that_changed_is_compared_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    model = net()
    optimized = cpuaccel.optimize(model, (image(),))
    model.linear = nn.Linear(8, 4)
    change_plans(monkeypatch, lambda result: result + 1)
    with torch.no_grad():
        assert torch.equal(optimized(image()), model(image()))
    assert optimized.verdict is not None
    assert optimized.verdict.runs == "model"
    assert optimized.verdicts == [optimized.verdict]


def test_integers_have_a_bound_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    model = quantized(net())
    optimized = cpuaccel.optimize(model, (image(),))
    assert optimized.verdict is not None
    assert (optimized.verdict.runs, optimized.verdict.arithmetic) == ("plan", "int8")
    assert optimized.verdict.difference is not None
    assert optimized.verdict.difference.allowed == 0.05
    change_plans(monkeypatch, lambda result: result * 1.1)
    refused = cpuaccel.optimize(model, (image(),)).verdict
    assert refused is not None
    assert refused.runs == "model"


@needs_torch_ao  # the reason is convert_fx's: a PT2E model may have float layers
def test_integers_are_no_floats_under_autocast() -> None:
    model = quantized(net())
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        optimized = cpuaccel.optimize(model, (image(),))
        assert optimized.verdict is not None
        assert (optimized.verdict.runs, optimized.verdict.arithmetic) == ("plan", "int8")
        assert "q_conv" in [kind for kinds in optimized.reports[0].kinds() for kind in kinds]
        torch.testing.assert_close(optimized(image()), model(image()))
        beside = nn.Sequential(model, nn.Linear(5, 5)).eval()
        verdict = cpuaccel.optimize(beside, (image(),)).verdict
    assert verdict is not None
    assert "a model with quantized and float layers, under autocast" in verdict.reason


def test_bf16_is_compared_with_fp32(monkeypatch: pytest.MonkeyPatch, bf16: None) -> None:
    model, x = net().bfloat16(), image().bfloat16()
    # More than a hundredth from bf16's eager result, but less than twice eager's error from fp32's.
    change_plans(monkeypatch, lambda result: result * 1.015)
    verdict = cpuaccel.optimize(model, (x,)).verdict
    assert verdict is not None
    assert verdict.arithmetic == "bf16"
    assert verdict.difference is not None
    assert verdict.difference.against == "the model in fp32"
    assert verdict.difference.allowed >= 0.01
    assert model.conv.weight.dtype == torch.bfloat16


def test_autocast_is_bf16(bf16: None) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        optimized = cpuaccel.optimize(net(), (image(),))
    verdict = optimized.verdict
    assert verdict is not None
    assert (verdict.runs, verdict.arithmetic) == ("plan", "bf16")
    assert verdict.inputs == "float32[2, 3, 10, 10] under autocast to bfloat16"
    # Weights that autocast casts are still constants.
    assert optimized.reports[0].kinds()[0] == ("Convolution", "ReLU")


def test_modules_that_disable_autocast_are_not_cast(bf16: None) -> None:
    def of(self: Any, x: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            exact = torch.outer(x[0], x[1])
        return self.linear(x) + exact.to(torch.float64).sum()

    model, x = Lambda(of, linear=nn.Linear(8, 8)).eval(), torch.randn(2, 8)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,))
        assert optimized.verdict is not None
        assert optimized.verdict.runs == "plan", optimized.verdict
        torch.testing.assert_close(optimized(x), model(x), atol=0.02, rtol=0.02)


def test_amplified_rounding_is_compared_with_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only differences of numbers around ten thousand remain."""

    def of(self: Any, x: Tensor) -> Tensor:
        y = self.linear(x + 300.0)
        return y - y.mean(1, keepdim=True)

    torch.manual_seed(0)
    model = Lambda(of, linear=nn.Linear(64, 64)).eval()
    with torch.no_grad():
        model.linear.weight.copy_(torch.rand(1, 64).expand(64, 64))
        model.linear.weight.add_(torch.randn(64, 64) * 1e-4)
    change_plans(monkeypatch, lambda result: result + 5e-4)  # some kernels give the model's bits
    found = cpuaccel.optimize(model, (torch.randn(8, 64),)).verdict
    assert found is not None
    assert found.difference is not None
    assert found.difference.against == "the model in float64"
    assert found.runs == "plan"
    assert model.linear.weight.dtype == torch.float32


# Models that draw random numbers, or mutate


def test_random_numbers_are_the_same_for_both() -> None:
    def of(self: Any, x: Tensor) -> Tensor:
        return F.dropout(F.relu(self.linear(x)), 0.5, training=True)

    model, x = Lambda(of, linear=nn.Linear(16, 16)).eval(), torch.randn(4, 16)
    before = torch.get_rng_state()
    optimized = cpuaccel.optimize(model, (x,))
    assert torch.equal(before, torch.get_rng_state())
    assert optimized.verdict is not None
    assert optimized.verdict.runs == "plan"
    assert "compared with the same random numbers" in optimized.verdict.reason


def test_numbers_drawn_in_another_order_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Lambda(
        lambda self, x: self.linear(x) + torch.rand_like(x), linear=nn.Linear(16, 16)
    ).eval()
    change_plans(monkeypatch, lambda result: result + torch.rand(()))
    verdict = cpuaccel.optimize(model, (torch.randn(4, 16),)).verdict
    assert verdict is not None
    assert verdict.runs == "model"
    assert "draws random numbers" in verdict.reason


def test_a_model_whose_results_differ_from_call_to_call_runs_without_a_plan() -> None:
    calls = itertools.count()
    model = Lambda(lambda self, x: self.linear(x) + next(calls), linear=nn.Linear(16, 16)).eval()
    verdict = cpuaccel.optimize(model, (torch.randn(4, 16),)).verdict
    assert verdict is not None
    assert verdict.runs == "model"
    assert "differ from call to call" in verdict.reason


class _Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        return self.linear(x) * self.calls


def test_comparing_leaves_buffers_as_they_were() -> None:
    torch.manual_seed(0)
    model, x = _Counter().eval(), torch.randn(2, 4)
    optimized = cpuaccel.optimize(model, (x,))
    assert optimized.verdict is not None
    assert optimized.verdict.runs == "plan"
    assert float(model.calls) == 0
    with torch.no_grad():
        for calls, batch in enumerate((2, 3, 2), start=1):
            y = torch.randn(batch, 4)
            torch.testing.assert_close(optimized(y), model.linear(y) * calls)
            assert float(model.calls) == calls


def test_comparing_leaves_inputs_as_they_were() -> None:
    model = Lambda(lambda self, x: self.linear(x.add_(1)), linear=nn.Linear(4, 4)).eval()
    x = torch.zeros(2, 4)
    optimized = cpuaccel.optimize(model, (x,))
    assert optimized.verdict is not None
    assert optimized.verdict.runs == "plan"
    assert float(x.sum()) == 0
    with torch.no_grad():
        optimized(x)
    assert float(x.sum()) == 8
