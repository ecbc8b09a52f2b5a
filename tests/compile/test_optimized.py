"""cpuaccel.optimize: partitions in eager mode, and the model itself if the plan is not valid."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cpuaccel
from compile._compiled import Lambda, needs_onednn
from compile._structured import image as _x
from compile._structured import net as _net

pytestmark = needs_onednn


def _agree(optimized: nn.Module, net: nn.Module, *args: Any, **kwargs: Any) -> None:
    with torch.no_grad():
        found, expected = optimized(*args, **kwargs), net(*args, **kwargs)
    torch.testing.assert_close(found["scores"], expected["scores"], atol=1e-5, rtol=1e-4)


def test_a_model_with_structured_results() -> None:
    net = _net()
    optimized = cpuaccel.optimize(net, (_x(),))
    _agree(optimized, net, _x())
    (made,) = optimized.reports
    assert made.kinds()[0] == ("Convolution", "Sigmoid", "Multiply")
    assert len(made.regions) == 1


def test_modules_that_torch_export_made() -> None:
    """An exported module always reports training mode, and rejects eval()."""
    net = _net()
    with torch.no_grad():
        exported = torch.export.export(net, (_x(),)).module()
    optimized = cpuaccel.optimize(exported, (_x(),), time_budget=0)
    _agree(optimized, net, _x())
    assert optimized.verdict is not None
    assert optimized.verdict.runs == "plan", optimized.verdict
    assert not optimized.training
    _agree(optimized.eval(), net, _x())
    assert len(optimized.reports) == 1
    assert cpuaccel.explain(optimized).rows


def test_a_graph_modules_containers_stay_plain() -> None:
    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)

        def forward(self, x: Tensor) -> Any:
            y = F.relu(self.conv(x))
            return {"pair": (y, [y + 1]), "list": [{"deep": y}]}

    model = torch.fx.symbolic_trace(Nested().eval())
    optimized = cpuaccel.optimize(model, (_x(),), time_budget=0)
    with torch.no_grad():
        found = optimized(_x())
    assert optimized.verdict is not None
    assert optimized.verdict.runs == "plan", optimized.verdict
    assert type(found) is dict
    assert type(found["pair"][1]) is type(found["list"]) is list
    assert type(found["list"][0]) is dict


def test_explain() -> None:
    rows = cpuaccel.explain(cpuaccel.optimize(_net(), (_x(),))).rows
    assert [row.op for row in rows][:2] == ["Convolution+Sigmoid+Multiply", "AvgPool"]
    assert {row.provider for row in rows} == {"onednn", "cpuaccel"}


def test_other_sizes_and_arguments_are_captured_when_they_come() -> None:
    net = _net()
    optimized = cpuaccel.optimize(net, (_x(),))
    _agree(optimized, net, _x(5))
    _agree(optimized, net, _x(5), scale=2.0)
    _agree(optimized, net, _x(5), 3.0)
    assert len(optimized.reports) == 4


def test_weights_are_shared_and_may_change() -> None:
    net = _net()
    optimized = cpuaccel.optimize(net, (_x(),))
    with torch.no_grad():
        net.conv.weight.mul_(2)
        net.norm.running_mean.add_(1)
    _agree(optimized, net, _x())


def test_with_gradients_the_model_runs() -> None:
    net = _net()
    optimized = cpuaccel.optimize(net, (_x(),))
    cpuaccel.reset_stats()
    optimized(_x())["scores"].sum().backward()
    assert net.conv.weight.grad is not None
    assert any("gradients" in reason for reason in cpuaccel.stats()["fallbacks"])


def test_in_training_mode_the_model_runs() -> None:
    net = _net()
    optimized = cpuaccel.optimize(net, (_x(),)).train()
    before = net.norm.running_mean.clone()
    with torch.no_grad():
        optimized(_x())
    assert not torch.equal(before, net.norm.running_mean)


def test_a_model_that_cannot_be_captured_runs_without_a_plan() -> None:
    def of(self: Any, x: Tensor) -> Tensor:
        return self.conv(x) if float(x.sum()) > 0 else self.conv(-x)

    model = Lambda(of, conv=nn.Conv2d(3, 4, 3)).eval()
    cpuaccel.reset_stats()
    optimized = cpuaccel.optimize(model, (_x(),))
    with torch.no_grad():
        for x in (_x(), -_x()):
            torch.testing.assert_close(optimized(x), model(x))
    assert any("not captured" in reason for reason in cpuaccel.stats()["fallbacks"])


def test_autocast() -> None:
    net = _net()
    optimized = cpuaccel.optimize(net, (_x(),))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found, expected = optimized(_x())["scores"], net(_x())["scores"]
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found.float(), expected.float(), atol=0.05, rtol=0.05)


def test_copies_and_pickles() -> None:
    net = _net()
    optimized = cpuaccel.optimize(net, (_x(),))
    buffer = io.BytesIO()
    torch.save(optimized, buffer)
    buffer.seek(0)
    for other in (copy.deepcopy(optimized), torch.load(buffer, weights_only=False)):
        _agree(other, net, _x())
        assert other.model.conv.weight is not net.conv.weight


def test_switched_off_it_is_the_model() -> None:
    net = _net()
    optimized = cpuaccel.optimize(net, (_x(),))
    with cpuaccel.enabled(False), torch.no_grad():
        assert torch.equal(optimized(_x())["scores"], net(_x())["scores"])


def test_bad_arguments() -> None:
    with pytest.raises(TypeError, match=r"model: expected a torch\.nn\.Module, got int"):
        cpuaccel.optimize(3, (_x(),))
    with pytest.raises(TypeError, match="example_inputs: expected a tuple"):
        cpuaccel.optimize(_net(), _x())
    with pytest.raises(ValueError, match="in eval mode"):
        cpuaccel.optimize(_net().train(), (_x(),))
