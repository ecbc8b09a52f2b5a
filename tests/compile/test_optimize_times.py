"""cpuaccel.optimize times a plan against the model, and int8 against fp32: the faster runs."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import nn

import cpuaccel
from compile._compiled import Lambda, needs_onednn
from compile._optimized import change_plans, image, net, quantized, take
from cpuaccel import _interleaved_timing, config
from cpuaccel.compile.validate import verdict

pytestmark = needs_onednn


def test_a_faster_plan_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = take(monkeypatch, plan=1e-3, model=2e-3)
    optimized = cpuaccel.optimize(net(), (image(),))
    found = optimized.verdict
    assert found is not None
    assert (found.runs, found.reason) == ("plan", "not slower than the model")
    assert found.seconds == {"plan": 1e-3, "model": 2e-3}
    assert "plan 1.00 ms, model 2.00 ms" in str(found)
    with torch.no_grad():
        for batch in (5, 7):
            optimized(image(batch))
        optimized(image().to(memory_format=torch.channels_last))
    # Only the example inputs are timed: the capture for other sizes has the same plan text.
    assert timed == [["plan", "model"]]
    reasons = [each.reason for each in optimized.verdicts]
    assert reasons == [
        "not slower than the model",
        "not timed: only the example inputs are",
        "not timed: same regions as the plan for the example inputs",
    ]
    assert len(optimized.reports) == 3


def test_a_slower_plan_does_not_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    take(monkeypatch, plan=2e-3, model=1e-3)
    model = net()
    cpuaccel.reset_stats()
    optimized = cpuaccel.optimize(model, (image(),))
    found = optimized.verdict
    assert found is not None
    assert (found.runs, found.reason) == ("model", "the plan is slower")
    (said,) = (each.getMessage() for each in caplog.records if each.levelname == "WARNING")
    assert "plan 2.00 ms, model 1.00 ms" in said
    with torch.no_grad():
        for batch in (2, 3):
            assert torch.equal(optimized(image(batch)), model(image(batch)))
    reason = "optimize: the plan is slower than the model for the example inputs"
    assert cpuaccel.stats()["fallbacks"][reason] == 2
    assert not optimized.reports
    assert any("plan 2.00 ms" in line for line in cpuaccel.explain(optimized).footer)


def test_noise_is_not_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    take(monkeypatch, plan=1.02e-3, model=1e-3)
    found = cpuaccel.optimize(net(), (image(),)).verdict
    assert found is not None
    assert found.runs == "plan"


def test_slower_is_what_most_rounds_say() -> None:
    model = [1.0, 2.0, 1.0, 1.0, 1.0]
    assert verdict.is_slower([1.1, 2.2, 1.1, 1.1, 1.1], model)
    assert not verdict.is_slower([1.1, 1.0, 1.1, 1.0, 1.1], model)
    assert not verdict.is_slower([1.0, 2.0, 9.0, 1.0, 1.0], model)
    assert verdict.is_slower([2.0], [1.0])


def test_real_times() -> None:
    config.set("deterministic", False)
    found = cpuaccel.optimize(net(), (image(),), time_budget=0.02).verdict
    assert found is not None
    assert set(found.seconds) == {"plan", "model"}
    assert all(seconds > 0 for seconds in found.seconds.values())
    assert found.runs == ("model" if found.reason == "the plan is slower" else "plan")


def test_without_a_budget_nothing_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = take(monkeypatch)
    found = cpuaccel.optimize(net(), (image(),), time_budget=0).verdict
    assert found is not None
    assert (found.runs, found.reason) == ("plan", "not timed: time_budget is 0")
    assert not timed


def test_a_plan_beyond_the_bound_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = take(monkeypatch)
    change_plans(monkeypatch, lambda result: result + 1)
    found = cpuaccel.optimize(net(), (image(),)).verdict
    assert found is not None
    assert found.runs == "model"
    assert not timed


def test_a_model_optimized_while_cpuaccel_was_off_is_timed_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timed = take(monkeypatch, plan=1e-3, model=2e-3)
    with cpuaccel.enabled(False):
        optimized = cpuaccel.optimize(net(), (image(),))
    assert optimized.verdict is not None
    assert optimized.verdict.reason == "cpuaccel is off"
    assert not timed
    with torch.no_grad():
        optimized(image())
    assert optimized.verdict.reason == "not slower than the model"
    assert len(timed) == 1


def test_copies_and_unpickled_modules_are_timed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = take(monkeypatch, plan=2e-3, model=1e-3)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3)).eval()
    optimized = cpuaccel.optimize(model, (image(),), time_budget=0.5)
    buffer = io.BytesIO()
    torch.save(optimized, buffer)
    buffer.seek(0)
    for other in (copy.deepcopy(optimized), torch.load(buffer, weights_only=False)):
        assert other.verdict is None
        assert other.time_budget == 0.5
        with torch.no_grad():
            other(image())
        assert other.verdict.reason == "the plan is slower"
    assert len(timed) == 3


def test_timing_leaves_buffers_and_inputs_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    take(monkeypatch, plan=1e-3, model=2e-3)
    model = nn.BatchNorm1d(4)
    model = Lambda(
        lambda self, x: self.linear(x.add_(1)) + self.norm.running_mean.add_(1),
        linear=nn.Linear(4, 4),
        norm=model,
    ).eval()
    x = torch.zeros(3, 4)
    cpuaccel.optimize(model, (x,))
    assert float(x.sum()) == 0
    assert float(model.norm.running_mean.sum()) == 0


def test_rounds_go_on_as_long_as_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def call(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(_interleaved_timing.time, "perf_counter", lambda: now)
    for a, b, budget, rounds in (
        *((1.0, 1.0625, 0.0, 3), (1.0, 1.0625, 25.0, 13), (1.0, 1.0625, 1e3, 30)),
        # One round shows that the first call is the fastest, but not that it is not.
        *((1.0, 2.0, 0.0, 1), (1.0, 2.0, 25.0, 9), (2.0, 1.0, 0.0, 3)),
        # In long calls it shows smaller differences.
        *((1.0, 1.25, 0.0, 1), (1 / 64, 5 / 256, 0.0, 3), (1 / 64, 1 / 32, 0.0, 1)),
    ):
        calls = {"a": lambda a=a: call(a), "b": lambda b=b: call(b)}
        found = _interleaved_timing.within(calls, budget)
        assert found == {"a": [a] * rounds, "b": [b] * rounds}


# An int8 model and the fp32 model that it was made from


def _times(int8: float, fp32: float) -> dict[str, float]:
    return {"plan": int8, "model": int8 * 2, "fp32_plan": fp32, "fp32_model": fp32 * 2}


def test_int8_runs_if_it_is_not_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = take(monkeypatch, **_times(int8=1e-3, fp32=2e-3))
    fp32 = net()
    int8 = quantized(fp32)
    optimized = cpuaccel.optimize(int8, (image(),), fp32=fp32)
    found = optimized.verdict
    assert found is not None
    assert optimized.model is int8
    assert (found.runs, found.reason) == ("plan", "int8 is not slower than fp32")
    assert timed == [["plan", "model", "fp32 plan", "fp32 model"]]
    assert found.distance is not None
    assert 0 < found.distance < 0.2
    assert f"int8 differs from fp32 by {found.distance:.2g} of fp32's norm" in str(found)


def test_fp32_runs_if_int8_is_slower(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    take(monkeypatch, **_times(int8=3e-3, fp32=2e-3))
    fp32 = net()
    optimized = cpuaccel.optimize(quantized(fp32), (image(),), fp32=fp32)
    found = optimized.verdict
    assert found is not None
    assert optimized.model is fp32
    assert (found.runs, found.reason) == ("fp32 plan", "int8 is slower than fp32")
    (said,) = (each.getMessage() for each in caplog.records if each.levelname == "WARNING")
    assert "plan 3.00 ms" in said
    assert "fp32 plan 2.00 ms" in said
    cpuaccel.reset_stats()
    with torch.no_grad():
        torch.testing.assert_close(optimized(image()), fp32(image()), atol=1e-5, rtol=1e-4)
    assert not any("optimize" in each for each in cpuaccel.stats()["fallbacks"])


def test_of_either_the_model_runs_where_its_plan_is_slower(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take(monkeypatch, plan=4e-3, model=3e-3, fp32_plan=2e-3, fp32_model=1e-3)
    fp32 = net()
    optimized = cpuaccel.optimize(quantized(fp32), (image(),), fp32=fp32)
    assert optimized.verdict is not None
    assert optimized.verdict.runs == "fp32 model"
    with torch.no_grad():
        assert torch.equal(optimized(image()), fp32(image()))


def test_int8_runs_if_nothing_is_timed() -> None:
    fp32 = net()
    int8 = quantized(fp32)
    for options, why in (({}, "CPUACCEL_DETERMINISTIC"), ({"time_budget": 0}, "time_budget is 0")):
        optimized = cpuaccel.optimize(int8, (image(),), fp32=fp32, **options)
        assert optimized.model is int8
        assert optimized.verdict is not None
        assert optimized.verdict.reason == f"neither model was timed: {why}"
        assert optimized.verdict.runs == "plan"


def test_an_fp32_model_that_is_another_one() -> None:
    int8 = quantized(net())
    with pytest.raises(TypeError, match=r"fp32: expected a torch\.nn\.Module, got int"):
        cpuaccel.optimize(int8, (image(),), fp32=3)
    with pytest.raises(ValueError, match="fp32: expected a model in eval mode"):
        cpuaccel.optimize(int8, (image(),), fp32=net().train())
    other = nn.Sequential(nn.Flatten(), nn.Linear(300, 7)).eval()
    with pytest.raises(
        ValueError, match=r"fp32: expected a model with the same outputs .* float32\[2, 5\]"
    ):
        cpuaccel.optimize(int8, (image(),), fp32=other)
    with pytest.raises(ValueError, match="example_inputs: fp32 raises RuntimeError"):
        cpuaccel.optimize(int8, (image(),), fp32=nn.Linear(3, 5).eval())
