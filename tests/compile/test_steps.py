"""`cpuaccel.explain(model, example_inputs)`: each step of a plan, and its time."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

import cpuaccel
from compile import _int8_models
from cpuaccel._explain import step_timing
from cpuaccel._explain.plan_steps import Plan, Step
from cpuaccel._native import load


@pytest.fixture(autouse=True)
def _few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_timing, "_SECONDS", 0.02)


def _net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, stride=2, groups=32),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 10),
    ).eval()  # fmt: skip


_X = torch.randn(2, 3, 16, 16)


def _plan_of(model: nn.Module, *inputs: Tensor) -> Plan:
    (plan,) = cpuaccel.explain(cpuaccel.optimize(model, inputs), inputs).plans
    return plan


def _layers(plan: Plan) -> list[Step]:
    return [step for step in plan.steps if step.gmacs]


def _multiply_adds(step: Step) -> float:
    return step.gmacs * step.microseconds * 1000


def test_each_layer_with_its_sizes_and_multiply_adds() -> None:
    layers = _layers(_plan_of(_net(), _X))
    assert [step.sizes for step in layers] == [
        "2x3x16x16 * 32x3x3x3 -> 2x32x16x16",
        "2x32x16x16 * 32x1x3x3 -> 2x32x7x7",
        "2x1568 * 10x1568 -> 2x10",
    ]
    expected = (2 * 32 * 16 * 16 * 27, 2 * 32 * 7 * 7 * 9, 2 * 10 * 1568)
    assert [_multiply_adds(step) for step in layers] == pytest.approx(expected)
    assert all(step.dtype == "f32" for step in layers)
    # Linear layers of two float rows use weights that are not packed.
    assert [step.kernel.split()[0] for step in layers] == ["onednn", "onednn", "cpuaccel"]
    assert layers[0].kinds == "Convolution+ReLU"


def test_times_and_shares_are_those_of_the_call() -> None:
    plan = _plan_of(_net(), _X)
    assert plan.runs >= 3
    assert plan.microseconds > 0
    assert plan.between >= 0
    assert sum(step.of_time for step in plan.steps) < 1.2  # medians of each step, not of one run
    assert all(step.microseconds > 0 and step.of_bound > 0 for step in plan.steps)
    assert all(step.gigabytes > 0 for step in plan.steps)


def test_a_quantized_model_names_kernels_of_the_engine() -> None:
    torch.backends.quantized.engine = "x86"
    layers = _layers(_plan_of(_int8_models.static(_net(), _X), _X))
    assert [step.kinds for step in layers] == ["q_conv", "q_conv", "q_linear"]
    assert all(step.dtype == "u8" for step in layers)
    assert layers[1].kernel.startswith("cpuaccel dwconv:")


def test_it_prints_a_line_a_step() -> None:
    model = cpuaccel.optimize(_net(), (_X,))
    explanation = cpuaccel.explain(model, (_X,))
    (plan,) = explanation.plans
    lines = str(plan).splitlines()
    assert len(lines) == 3 + len(plan.steps)
    assert "between steps" in lines[0]
    header = "step kernel sizes type us rate of bound of time"
    assert " ".join(lines[1].split()) == header
    assert str(plan) in str(explanation)
    assert "Convolution+ReLU" in explanation._repr_html_()


def test_without_inputs_nothing_is_run() -> None:
    assert cpuaccel.explain(cpuaccel.optimize(_net(), (_X,))).plans == ()


def test_example_inputs_other_than_a_tuple_raise() -> None:
    with pytest.raises(TypeError, match=r"example_inputs: expected a tuple .* got Tensor"):
        cpuaccel.explain(cpuaccel.optimize(_net(), (_X,)), _X)  # type: ignore[arg-type]


def test_a_model_without_plans_has_none() -> None:
    assert cpuaccel.explain(_net(), (_X,)).plans == ()


def test_only_what_was_run_since_is_told() -> None:
    first, second = cpuaccel.optimize(_net(), (_X,)), cpuaccel.optimize(nn.ReLU().eval(), (_X,))
    cpuaccel.explain(first, (_X,))
    assert all(
        step.kinds != "Convolution+ReLU"
        for plan in cpuaccel.explain(second, (_X,)).plans
        for step in plan.steps
    )


def test_steps_are_timed_from_many_threads() -> None:
    model = cpuaccel.optimize(_net(), (_X,))
    native = load()
    native.time_steps(True)
    try:
        with torch.no_grad():
            expected = model(_X)
            found: list[Tensor] = []
            threads = [threading.Thread(target=lambda: found.append(_calls(model))) for _ in "ab"]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        native.time_steps(False)
    (program,) = native.step_times()
    assert len(program["nanoseconds"]) == 1 + 2 * 20
    assert all(torch.equal(each, expected) for each in found)


def _calls(model: nn.Module) -> Tensor:
    with torch.no_grad():
        return [model(_X) for _ in range(20)][-1]


def test_profilers_see_each_step() -> None:
    model = cpuaccel.optimize(_net(), (_X,))
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU]) as found:
        model(_X)
    names = [event.name for event in found.events() if event.name.startswith("cpuaccel::step.")]
    assert names.count("cpuaccel::step.Convolution+ReLU") == 1
    assert "cpuaccel::step.Convolution" in names


@pytest.mark.parametrize("footprint", [4096.0, 1 << 22])
def test_peaks_of_the_machine(footprint: float) -> None:
    peaks = load().machine_peaks(footprint)
    assert peaks["f32"] > 0
    assert peaks["u8"] > 0
    assert 0 < peaks["seconds_to_read"] < 1e-6
    assert 0 < peaks["seconds_to_write"] < 1e-6
