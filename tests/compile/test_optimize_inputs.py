"""Optimized models on bad inputs, and on inputs that they were not, or cannot be, captured for."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cpuaccel
from compile._compiled import Lambda, needs_onednn
from compile._optimized import image, net
from cpuaccel.compile.capture.capture import structure_of
from cpuaccel.compile.frontend import capture_maker
from cpuaccel.compile.frontend import optimized_module as module

pytestmark = needs_onednn


def _fallbacks() -> dict[str, int]:
    return {
        reason.removeprefix("optimize: "): count
        for reason, count in cpuaccel.stats()["fallbacks"].items()
        if reason.startswith("optimize: ")
    }


def test_another_layout_of_images_is_another_signature() -> None:
    model = net()
    optimized = cpuaccel.optimize(model, (image(),))
    x = image().to(memory_format=torch.channels_last)
    with torch.no_grad():
        torch.testing.assert_close(optimized(x), model(x), atol=1e-5, rtol=1e-4)
    assert [each.inputs for each in optimized.verdicts] == [
        "float32[2, 3, 10, 10]",
        "float32[2, 3, 10, 10] in channels_last",
    ]
    assert all(each.runs == "plan" for each in optimized.verdicts)


def test_another_dtype_that_the_model_takes() -> None:
    model = Lambda(lambda self, x: self.linear(x.float()), linear=nn.Linear(8, 8)).eval()
    optimized = cpuaccel.optimize(model, (torch.randn(2, 8),))
    x = torch.randn(2, 8, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(optimized(x), model(x), atol=1e-5, rtol=1e-4)
    assert [each.inputs for each in optimized.verdicts] == ["float32[2, 8]", "float64[2, 8]"]


def test_another_dtype_that_it_does_not_take() -> None:
    optimized = cpuaccel.optimize(net(), (image(),))
    x = image().double()
    for _ in range(2):
        with torch.no_grad(), pytest.raises(RuntimeError) as raised:
            optimized(x)
        note = (
            "cpuaccel.optimize: called with float64[2, 3, 10, 10], optimized for"
            " float32[2, 3, 10, 10]"
        )
        if hasattr(raised.value, "add_note"):
            assert note in raised.value.__notes__
    with torch.no_grad():
        optimized(image())
    assert len(optimized.reports) == 1


def test_other_devices_and_layouts_are_the_models() -> None:
    model = Lambda(
        lambda self, x: x.sum() if x.is_sparse or x.is_meta else self.linear(x),
        linear=nn.Linear(8, 8),
    ).eval()
    optimized = cpuaccel.optimize(model, (torch.randn(2, 8),))
    cpuaccel.reset_stats()
    sparse = torch.eye(4).to_sparse()
    with torch.no_grad():
        for _ in range(2):
            assert float(optimized(sparse)) == 4
        assert optimized(torch.empty(3, device="meta")).is_meta
    layout = "expected a tensor of layout torch.strided, got torch.sparse_coo"
    device = "expected a tensor on cpu, got one on meta"
    assert _fallbacks() == {
        f"input [0]: {layout}, as in float32[2, 8]": 2,
        f"input [0]: {device}, as in float32[2, 8]": 1,
    }


def test_arguments_without_a_hash_are_the_models() -> None:
    def of(self: Any, x: Tensor, add: bytearray | bytes) -> Tensor:
        return self.linear(x) + add[0]

    model, x = Lambda(of, linear=nn.Linear(8, 8)).eval(), torch.randn(2, 8)
    optimized = cpuaccel.optimize(model, (x, b"\1"))
    cpuaccel.reset_stats()
    with torch.no_grad():
        torch.testing.assert_close(optimized(x, bytearray(b"\3")), model(x, b"\3"))
    (reason,) = _fallbacks()
    assert reason.startswith("input [1]: expected a tensor or a hashable value, got bytearr")


def test_numbers_that_are_equal_are_told_apart() -> None:
    def of(self: Any, x: Tensor, how: Any) -> Tensor:
        return self.linear(x) * (2.0 if isinstance(how, bool) else 3.0 if how == how else 4.0)

    model, x = Lambda(of, linear=nn.Linear(8, 8)).eval(), torch.randn(2, 8)
    optimized = cpuaccel.optimize(model, (x, 1))
    with torch.no_grad():
        for how in (1, 1.0, True, float("nan"), float("nan")):
            torch.testing.assert_close(optimized(x, how), model(x, how))
    assert len(optimized.verdicts) == 4


def test_the_model_runs_for_signatures_beyond_the_maximum(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MAX_CAPTURES", 2)
    model = Lambda(lambda self, x, by: self.linear(x) * by, linear=nn.Linear(8, 8)).eval()
    x = torch.randn(2, 8)
    optimized = cpuaccel.optimize(model, (x, 1.5))
    cpuaccel.reset_stats()
    with torch.no_grad():
        for _ in range(2):
            for by in (1.5, 2.5, 3.5, 4.5):
                found, expected = optimized(x, by), model(x, by)
                torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    first = "float32[2, 8], 1.5"
    assert _fallbacks() == {f"2 other input signatures have a capture, the first {first}": 4}
    (said,) = (each.getMessage() for each in caplog.records if each.levelname == "WARNING")
    assert "without a plan for float32[2, 8], 3.5" in said
    assert f"{first}; float32[2, 8], 2.5;" in said


def test_failed_captures_are_not_repeated_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def fail(*_: Any) -> Any:
        tried.append(1)
        raise RuntimeError("not this one")

    monkeypatch.setattr(module, "_MAX_FAILURES", 2)
    monkeypatch.setattr(capture_maker, "capture", fail)
    model = net()
    optimized = cpuaccel.optimize(model, (image(1),))
    cpuaccel.reset_stats()
    with torch.no_grad():
        for batch in (1, 2, 2, 2, 3, 4, 3):
            assert torch.equal(optimized(image(batch)), model(image(batch)))
    assert len(tried) == 2
    vain = "2 other input signatures could not be captured, the first float32[1, 3, 10, 10]"
    rare = "these sizes were called fewer than 3 times: not captured: not this one"
    assert _fallbacks() == {"not captured: not this one": 2, rare: 2, vain: 3}


def test_keywords() -> None:
    def of(self: Any, x: Tensor, *, scale: Tensor) -> Tensor:
        return self.linear(x) * scale

    class Model(Lambda):
        def forward(self, x: Tensor, *, scale: Tensor) -> Tensor:
            return of(self, x, scale=scale)

    model = Model(of, linear=nn.Linear(8, 8)).eval()
    inputs = {"x": torch.randn(2, 8), "scale": torch.ones(8)}
    optimized = cpuaccel.optimize(model, (), inputs)
    assert optimized.verdict is not None
    assert optimized.verdict.inputs == "x=float32[2, 8], scale=float32[8]"
    assert optimized.verdict.runs == "plan"
    with torch.no_grad():
        torch.testing.assert_close(optimized(**inputs), model(**inputs))


@pytest.mark.parametrize(
    ("inputs", "options", "message"),
    [
        ((torch.randn(2, 7),), {}, r"example_inputs: model raises RuntimeError for float32\[2, 7"),
        ((), {}, "example_inputs: model raises TypeError for no inputs"),
        (
            (torch.empty(2, 8, device="meta"),),
            {},
            r"example_inputs\[0\]: expected a tensor on cpu, got one on meta",
        ),
        (
            (torch.eye(8).to_sparse(),),
            {},
            r"example_inputs\[0\]: expected a tensor of layout torch.strided",
        ),
        ((), {"example_kwargs": [3]}, "example_kwargs: expected a mapping .* got list"),
        (
            (),
            {"example_kwargs": {"x": torch.eye(8).to_sparse()}},
            r"example_kwargs\['x'\]: expected a tensor of layout torch.strided",
        ),
        ((torch.randn(2, 8),), {"time_budget": -1}, "time_budget: expected 0 seconds or more"),
        ((torch.randn(2, 8),), {"time_budget": float("nan")}, "time_budget: expected 0 seconds"),
        ((torch.randn(2, 8),), {"time_budget": "1"}, "time_budget: expected a number .* got str"),
    ],
)
def test_bad_examples(inputs: tuple[Any, ...], options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match="^cpuaccel.optimize: " + message):
        cpuaccel.optimize(nn.Sequential(nn.Linear(8, 8)).eval(), inputs, **options)


# Threads, and modules around the optimized model


def test_threads_share_one_plan() -> None:
    """Some threads capture sizes while others call known sizes, and the model itself."""
    model = net()
    optimized = cpuaccel.optimize(model, (image(1),))
    expected = {}
    with torch.no_grad():
        for batch in range(1, 6):
            expected[batch] = model(image(batch))
    problems: list[BaseException] = []
    start = threading.Barrier(4)

    def work(number: int) -> None:
        try:
            start.wait()
            with torch.no_grad():
                for step in range(25):
                    batch = 1 + (step + number) % 5
                    run = model if number == 3 else optimized
                    torch.testing.assert_close(
                        run(image(batch)), expected[batch], atol=1e-5, rtol=1e-4
                    )
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems[0]
    assert len(optimized.reports) == 2


def test_a_mirror_holds_the_very_tensors() -> None:
    model = net()
    model.alias = [model.conv]
    model.method = model.linear.forward
    mirror: Any = structure_of(model)
    assert type(mirror) is type(model)
    assert mirror is not model
    assert mirror.conv is not model.conv
    assert mirror.alias[0] is mirror.conv
    assert mirror.method.__self__ is mirror.linear
    ours, theirs = dict(mirror.named_parameters()), dict(model.named_parameters())
    assert list(ours) == list(theirs)
    assert all(ours[name] is theirs[name] for name in ours)
    mirror.conv._parameters["weight"] = None
    assert model.conv.weight is not None


def test_a_trace_around_it_sees_the_model() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = cpuaccel.optimize(net(), (image(),))

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x) * 2

    outer = Outer().eval()
    with torch.no_grad():
        expected = outer(image())
        exported = torch.export.export(outer, (image(),)).module()
        torch.testing.assert_close(exported(image()), expected, atol=1e-5, rtol=1e-4)
        again = cpuaccel.optimize(outer, (image(),))
        torch.testing.assert_close(again(image()), expected, atol=1e-5, rtol=1e-4)
        torch._dynamo.reset()
        compiled = torch.compile(outer, backend="eager", fullgraph=True)
        torch.testing.assert_close(compiled(image()), expected, atol=1e-5, rtol=1e-4)
