"""torch.compile and optimize of eager-mode int8 models: one integer graph, as from convert_fx."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.ao.quantization import (
    DeQuantStub,
    QuantStub,
    QuantWrapper,
    convert,
    fuse_modules,
    get_default_qconfig,
    prepare,
    quantize_dynamic,
)

import cpuaccel
from compile._compiled import needs_onednn
from cpuaccel.compile.common import report

pytestmark = needs_onednn


@pytest.fixture(autouse=True)
def _engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(torch.backends.quantized, "engine", "x86")
    torch.manual_seed(0)
    torch._dynamo.reset()
    report.clear()
    cpuaccel.reset_stats()
    with torch.no_grad():
        yield


def _x() -> Tensor:
    return torch.randn(2, 3, 9, 9)


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.first, self.relu = nn.Conv2d(3, 8, 3, padding=1), nn.ReLU()
        self.second, self.linear = nn.Conv2d(8, 8, 1), nn.Linear(8, 4)
        self.sum = nn.quantized.FloatFunctional()

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.first(self.quant(x)))
        x = F.interpolate(self.sum.add(x, self.second(x)), scale_factor=2.0)
        return self.dequant(self.linear(x.mean((2, 3))))


def _converted(model: nn.Module, fused: Any = None) -> Any:
    model = model.eval()
    model.qconfig = get_default_qconfig("x86")
    prepared = prepare(fuse_modules(model, fused) if fused else model)
    prepared(_x())
    return convert(prepared)


def _model() -> Any:
    return _converted(_Net(), [["first", "relu"]])


def _is_integers() -> bool:
    return any("q_conv" in part for one in report.reports() for part in one.kinds())


def test_compiled_it_is_one_graph_of_integers() -> None:
    model, x = _model(), _x()
    compiled = torch.compile(model, backend="cpuaccel", fullgraph=True)
    torch.testing.assert_close(compiled(x), model(x))
    assert _is_integers()
    assert compiled._orig_mod is model


def test_optimized_it_is_one_graph_of_integers(tmp_path: Path) -> None:
    model, x = _model(), _x()
    optimized = cpuaccel.optimize(model, (x,), time_budget=0)
    torch.testing.assert_close(optimized(x), model(x))
    assert optimized.verdict.runs == "plan"
    assert _is_integers()
    cpuaccel.save(optimized, tmp_path / "model.pt2")
    torch.testing.assert_close(cpuaccel.load(tmp_path / "model.pt2")(x), model(x))


@pytest.mark.parametrize("compiled", [False, True], ids=["optimize", "compile"])
def test_changes_are_followed(compiled: bool) -> None:
    model, x = _model(), _x()
    run = (
        torch.compile(model, backend="cpuaccel")
        if compiled
        else cpuaccel.optimize(model, (x,), time_budget=0)
    )
    torch.testing.assert_close(run(x), model(x))
    model.quant.scale.mul_(4)
    torch.testing.assert_close(run(x), model(x))
    model.sum.scale *= 3
    torch.testing.assert_close(run(x), model(x))
    model.first = _model().first
    torch.testing.assert_close(run(x), model(x))


def test_an_int8_submodule_of_a_float_model() -> None:
    model, x = nn.Sequential(_model(), nn.Linear(4, 4)).eval(), _x()
    compiled = torch.compile(model, backend="cpuaccel", fullgraph=True)
    torch.testing.assert_close(compiled(x), model(x), atol=1e-2, rtol=0)
    assert _is_integers()


class _Branching(nn.Module):
    """A forward that torch.fx cannot trace, but Dynamo and torch.export can."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: Tensor, *, twice: bool = False) -> Tensor:
        x = self.part(x)
        if x.shape[0] > 1:
            x = x + 1
        return 2 * x if twice else x


def test_a_model_that_torch_fx_cannot_trace() -> None:
    model, x = _Branching(_model()).eval(), _x()
    expected = model(x, twice=True)
    compiled = torch.compile(model, backend="cpuaccel", fullgraph=True)
    torch.testing.assert_close(compiled(x, twice=True), expected)
    optimized = cpuaccel.optimize(model, (x,), {"twice": True}, time_budget=0)
    torch.testing.assert_close(optimized(x, twice=True), expected)
    assert optimized.verdict.runs == "plan"


def test_dynamic_layers_compile_without_a_break() -> None:
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    for model in (quantize_dynamic(net, {nn.Linear}), _Branching(net)):
        model = quantize_dynamic(model.eval(), {nn.Linear})
        x = torch.randn(3, 8)
        compiled = torch.compile(model, backend="cpuaccel", fullgraph=True)
        torch.testing.assert_close(compiled(x), model(x), atol=1e-2, rtol=1e-2)
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        torch.testing.assert_close(optimized(x), model(x), atol=1e-2, rtol=1e-2)
        assert optimized.verdict.runs == "plan"


class _ByType(nn.Module):
    """A forward that behaves differently for a list, which a trace by torch.fx does not show."""

    def __init__(self) -> None:
        super().__init__()
        self.net = QuantWrapper(nn.Conv2d(3, 8, 1))

    def forward(self, x: Any, shift: Tensor | None = None) -> Tensor:
        if isinstance(x, list):
            x = x[0] + 1
        return self.net(x if shift is None else x + shift)


def test_other_argument_types_run_the_model() -> None:
    model, x = _converted(_ByType()), _x()
    compiled = torch.compile(model, backend="cpuaccel")
    for args, kwargs in (((x,), {}), (([x],), {}), ((x, x), {}), ((x,), {"shift": x})):
        expected = model(*args, **kwargs)
        torch.testing.assert_close(compiled(*args, **kwargs), expected, atol=0.05, rtol=0)


class _ByTensor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = QuantWrapper(nn.Conv2d(3, 8, 1))

    def forward(self, x: Any) -> Tensor:
        return self.net(x) if isinstance(x, Tensor) else self.net(x) * 0


def test_a_trace_with_other_results_is_not_used() -> None:
    model, x = _converted(_ByTensor()), _x()
    compiled = torch.compile(model, backend="cpuaccel")
    torch.testing.assert_close(compiled(x), model(x), atol=0.05, rtol=0)
    fallbacks = cpuaccel.stats()["fallbacks"]
    assert any("lowered model's results differ" in reason for reason in fallbacks)


def test_under_autocast_it_is_the_model() -> None:
    model, x = _model(), _x()
    compiled = torch.compile(model, backend="cpuaccel")
    with torch.autocast("cpu", torch.bfloat16):
        expected = model(x)
        assert torch.equal(compiled(x), expected)
