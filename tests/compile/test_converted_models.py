"""torch.compile of models from convert_fx."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from quant._engine import needs_front_end, needs_torch_ao
from torch import Tensor, nn

import cpuaccel
from compile._compiled import Net, needs_onednn
from compile.test_int8 import converted
from cpuaccel.compile.capture.module_attributes import ChangeCounter
from cpuaccel.compile.common import report
from cpuaccel.compile.frontend import converted_models

pytestmark = [needs_onednn, needs_torch_ao]


@pytest.fixture(autouse=True)
def _engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.quantized, "engine", "x86")
    torch.manual_seed(0)
    torch._dynamo.reset()
    report.clear()


def _x() -> Tensor:
    return torch.randn(2, 8, 9, 9)


def _net() -> nn.Module:
    return Net(
        lambda self, x: self.head(F.relu(self.conv(x) + x).mean((2, 3))),
        conv=nn.Conv2d(8, 8, 3, padding=1),
        head=nn.Linear(8, 4),
    )


def _quantized() -> Any:
    with torch.no_grad():
        return converted(_net(), _x())


def _is_integers() -> bool:
    return any("q_conv" in part for one in report.reports() for part in one.kinds())


@pytest.mark.parametrize(
    "options", [{}, {"fullgraph": True}, {"mode": "max-autotune-no-cudagraphs"}]
)
def test_it_is_one_graph_of_integers(options: dict[str, Any]) -> None:
    model, x = _quantized(), _x()
    compiled = torch.compile(model, backend="cpuaccel", **options)
    torch.testing.assert_close(compiled(x), model(x))
    assert _is_integers()
    assert compiled._orig_mod is model
    assert "q_conv" in str(cpuaccel.explain(compiled))


def test_module_compile() -> None:
    model, x = _quantized(), _x()
    expected = model(x)
    model.compile(backend="cpuaccel", fullgraph=True)
    torch.testing.assert_close(model(x), expected)
    assert _is_integers()


def test_a_submodule() -> None:
    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = _quantized()

        def forward(self, x: Tensor) -> Tensor:
            return torch.softmax(self.part(2 * x), 1)

    model, x = Whole().eval(), _x()
    compiled = torch.compile(model, backend="cpuaccel", fullgraph=True)
    torch.testing.assert_close(compiled(x), model(x))
    assert _is_integers()


def _scale(model: Any) -> None:
    model[0].get_buffer("_scale_0").mul_(8)


@pytest.mark.parametrize("optimized", [False, True], ids=["compile", "optimize"])
@pytest.mark.parametrize(
    "change",
    [
        lambda model: model[1].weight.mul_(2),
        lambda model: setattr(model[1], "weight", nn.Parameter(torch.ones(4, 8))),
        _scale,
        lambda model: model[0].register_forward_hook(lambda *of: of[-1] + 1),
        lambda model: model[1].register_forward_hook(lambda *of: of[-1] + 1),
        lambda model: model[2].train(),
    ],
    ids=["in place", "replaced", "scale", "hook", "hook of floats", "mode"],
)
@torch.no_grad()
def test_changes_beside_a_submodule_are_followed(change: Any, optimized: bool) -> None:
    net = Net(
        lambda self, x: torch.add(self.conv(x), x).mean((2, 3)), conv=nn.Conv2d(8, 8, 3, padding=1)
    )
    model = nn.Sequential(converted(net, _x()), nn.Linear(8, 4), nn.Dropout(1.0)).eval()
    x = _x()
    run = (
        cpuaccel.optimize(model, (x,), time_budget=0)
        if optimized
        else torch.compile(model, backend="cpuaccel")
    )
    before = model(x)
    torch.testing.assert_close(run(x), before, atol=0.1, rtol=0.05)
    change(model)
    after = model(x)
    assert (after - before).abs().max() > 0.05
    torch.testing.assert_close(run(x), after, atol=0.02, rtol=0.05)


def test_one_that_changes_before_each_call_is_compiled_as_it_is(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lowered = []
    monkeypatch.setattr(
        converted_models._Lowering, "_compile", lambda self, _: lowered.append(1) or self._model
    )
    model, x = _quantized(), _x()
    compiled = torch.compile(model, backend="cpuaccel")
    for step in range(ChangeCounter.MOST + 5):
        model.step = 1000 + step
        compiled(x)
    assert len(lowered) == ChangeCounter.MOST + 1
    assert sum("from now on: it has changed" in each for each in caplog.messages) == 1


@needs_front_end  # torch's quantized sum rounds some values otherwise
def test_two_of_a_class_have_their_own_scales() -> None:
    class Whole(nn.Module):
        def __init__(self, by: float) -> None:
            super().__init__()
            net = Net(lambda self, x: torch.add(self.conv(x), x), conv=nn.Conv2d(8, 8, 1))
            self.part = converted(net, by * _x())

        def forward(self, x: Tensor) -> Any:
            return self.part(2 * x)

    x = _x()
    with torch.no_grad():
        for by in (1.0, 8.0):
            model = Whole(by).eval()
            compiled = torch.compile(model, backend="cpuaccel")
            torch.testing.assert_close(compiled(x), model(x))


def test_replaced_attributes_are_followed() -> None:
    model, other, x = _quantized(), _quantized(), _x()
    compiled = torch.compile(model, backend="cpuaccel")
    compiled(x)
    model.conv = other.conv
    torch.testing.assert_close(compiled(x), model(x))
    model.load_state_dict(_quantized().state_dict())
    torch.testing.assert_close(compiled(x), model(x))


def test_off_it_is_torch_s() -> None:
    model, x = _quantized(), _x()
    compiled = torch.compile(model, backend="cpuaccel")
    with cpuaccel.enabled(False):
        torch.testing.assert_close(compiled(x), model(x), atol=0.1, rtol=0)
        assert not _is_integers()
    torch.testing.assert_close(compiled(x), model(x))
    assert _is_integers()


def test_a_failed_lowering_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = _quantized(), _x()

    def refuse(_: nn.Module) -> nn.Module:
        raise ValueError("a reason")

    monkeypatch.setattr("cpuaccel.quant.lower", refuse)
    cpuaccel.reset_stats()
    compiled = torch.compile(model, backend="cpuaccel")
    torch.testing.assert_close(compiled(x), model(x), atol=0.1, rtol=0)
    assert cpuaccel.stats()["fallbacks"]["graph: not lowered: a reason"] == 1


def test_other_backends_and_models_are_not_patched() -> None:
    float_model, x = _net().eval(), _x()
    with torch.no_grad():
        compiled = torch.compile(float_model, backend="cpuaccel")
        torch.testing.assert_close(compiled(x), float_model(x), atol=1e-4, rtol=1e-4)
    eager = torch.compile(_quantized(), backend="eager")
    assert type(eager.forward).__name__ == "function"
    assert torch.compile.__name__ == "compile"


def test_a_copy_is_of_the_model() -> None:
    model, x = _quantized(), _x()
    compiled = torch.compile(model, backend="cpuaccel")
    compiled(x)
    copied = copy.deepcopy(compiled._orig_mod)
    torch.testing.assert_close(copied(x), model(x))


def test_optimized_it_is_integers_too() -> None:
    model, other, x = _quantized(), _quantized(), _x()
    optimized = cpuaccel.optimize(model, (x,))
    with torch.no_grad():
        torch.testing.assert_close(optimized(x), model(x))
        assert _is_integers()
        model.conv = other.conv
        torch.testing.assert_close(optimized(x), model(x))


def test_integers_stay_integers_under_autocast() -> None:
    model, x = _quantized(), _x()
    compiled = torch.compile(model, backend="cpuaccel")
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        expected = model(x)
        found = compiled(x)
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)
    assert _is_integers()


def test_layers_of_floats_under_autocast_are_eagers() -> None:
    model, x = nn.Sequential(_quantized(), nn.Linear(4, 4)).eval(), _x()
    compiled = torch.compile(model, backend="cpuaccel")
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        expected = model(x)
        found = compiled(x)
    assert found.dtype == expected.dtype == torch.bfloat16
    assert torch.equal(found, expected)
    assert any("quantized and float layers" in reason for reason in cpuaccel.stats()["fallbacks"])
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
    assert _is_integers()
