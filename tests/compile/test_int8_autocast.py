"""PT2E models under autocast: the layers run on integers, and results have autocast's dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cpuaccel
from compile import _int8_models, _pt2e
from compile._compiled import needs_onednn
from cpuaccel.compile.common import report

pytestmark = needs_onednn


class Block(nn.Module):
    """Convolutions with activations and a residual sum, a mean and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 32, 3, padding=1)
        self.b = nn.Conv2d(32, 32, 3, padding=1)
        self.c = nn.Conv2d(32, 32, 1)
        self.d = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.a(x))
        x = F.relu(self.c(F.hardswish(self.b(x))) + x)
        return self.d(x.mean((2, 3)))


class Encoder(nn.Module):
    """Two projections of the same tokens, and a feed-forward layer behind their sum."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(64, 64), nn.Linear(64, 64)
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(self.q(x) + self.k(x).transpose(1, 2))))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "block": (Block, (1, 3, 56, 56), 4),
    "encoder": (Encoder, (2, 64, 64), 4),
}
"""A model, the sizes of its input and its number of layers."""

WAYS: dict[str, Callable[[nn.Module, Tensor], Callable[[Tensor], Tensor]]] = {
    "optimized": lambda model, x: cpuaccel.optimize(model, (x,), time_budget=0),
    "compiled": lambda model, x: torch.compile(model, backend="cpuaccel", dynamic=False),
}


def _kinds() -> list[str]:
    made = report.reports()[-1].kinds()
    return [kind for partition in made for kind in partition]


@pytest.mark.parametrize("quantized", [_int8_models.pt2e, _pt2e.quantized])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_layers_run_on_integers(name: str, way: str, quantized: Any) -> None:
    """The integers are nearer to the model without autocast than bf16 arithmetic is."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    make, sizes, layers = MODELS[name]
    x = torch.randn(*sizes)
    model = quantized(make().eval(), x)
    autocast = torch.autocast("cpu", torch.bfloat16)
    with cpuaccel.enabled(False):
        exact = model(x)
        with autocast:
            eager = model(x)
    with autocast:
        found = WAYS[way](model, x)(x)
    assert found.dtype == eager.dtype == torch.bfloat16
    scale = exact.abs().max()
    assert (found - exact).abs().max() <= 1.5 * (eager - exact).abs().max() + scale / 128
    assert len([kind for kind in _kinds() if kind in ("q_conv", "q_linear")]) == layers


@torch.no_grad()
def test_float16() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 3, 56, 56)
    model = _pt2e.quantized(Block().eval(), x)
    with torch.autocast("cpu", torch.float16):
        found = cpuaccel.optimize(model, (x,), time_budget=0)(x)
        torch.testing.assert_close(found, model(x), rtol=0.01, atol=0.01)
    assert found.dtype == torch.float16
    assert _kinds().count("q_conv") == 3


@torch.no_grad()
def test_a_result_that_is_returned_keeps_its_rounding() -> None:
    """The layer's result is read twice: as a result in bf16, and by a quantize."""

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(64, 64), nn.Linear(64, 64)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            y = self.a(x)
            return y, self.b(y)

    torch.manual_seed(0)
    x = torch.randn(16, 64)
    model = _pt2e.quantized(Both().eval(), x)
    with torch.autocast("cpu", torch.bfloat16):
        found = cpuaccel.optimize(model, (x,), time_budget=0)(x)
        expected = model(x)
    assert [each.dtype for each in found] == [torch.bfloat16] * 2
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02)
    assert _kinds().count("q_linear") == 2


@torch.no_grad()
def test_float_layers_stay_in_bf16() -> None:
    """A layer of whose operands only the weight is dequantized multiplies floats."""
    torch.manual_seed(0)
    x = torch.randn(16, 64)
    layer = _pt2e.quantized(nn.Sequential(nn.Linear(64, 64)).eval(), x)[0]

    class WeightOnly(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor) -> Tensor:
            q = torch.ops.quantized_decomposed
            held = self.layer.weight, self.layer.scales, self.layer.zero_points
            weight = q.dequantize_per_channel(*held, 0, -128, 127, torch.int8)
            return F.linear(x, weight)

    model = WeightOnly().eval()
    with torch.autocast("cpu", torch.bfloat16):
        found = cpuaccel.optimize(model, (x,), time_budget=0)(x)
        torch.testing.assert_close(found, model(x))
    assert found.dtype == torch.bfloat16
    assert "q_linear" not in _kinds()
