"""oneDNN code that writes past the end of its results never runs, in int8 or bf16."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import cpuaccel
from compile import _int8_models
from compile._compiled import needs_onednn
from cpuaccel._explain import step_timing

_WRONG = "jit_1x1:avx512_core_amx"

pytestmark = [
    needs_onednn,
    pytest.mark.skipif(
        not torch.cpu._is_amx_tile_supported(),
        reason="a bug of oneDNN's AMX code: torch.cpu._is_amx_tile_supported() is False",
    ),
]


def _layer(width: int) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    return nn.Conv2d(96, 64, 1).eval(), torch.randn(2, 96, 1, width)


@pytest.mark.parametrize("width", [27, 33, 36, 48])
def test_int8_in_eager_mode(width: int) -> None:
    net, x = _layer(width)
    model = _int8_models.static(nn.Sequential(net), x)
    found = model(x)
    (row,) = [row for row in cpuaccel.explain(model).rows if row.provider == "onednn"]
    assert row.kernel
    assert row.kernel != _WRONG
    exact = net(x)
    assert float((found - exact).norm() / exact.norm()) < 0.05


@pytest.mark.parametrize("width", [27, 36])
@pytest.mark.usefixtures("bf16")
def test_bf16_in_a_plan(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_timing, "_SECONDS", 0.01)
    net, x = _layer(width)
    with torch.no_grad():
        exact = net(x)
        optimized = cpuaccel.optimize(
            nn.Sequential(net, nn.ReLU()).eval().bfloat16(), (x.bfloat16(),), time_budget=0
        )
        found = optimized(x.bfloat16()).float()
        (plan,) = cpuaccel.explain(optimized, (x.bfloat16(),)).plans
    kernels = [step.kernel for step in plan.steps if step.kinds.startswith("Convolution")]
    assert len(kernels) == 1
    assert _WRONG not in kernels[0]
    assert float((found - exact.relu()).norm() / exact.norm()) < 0.02
