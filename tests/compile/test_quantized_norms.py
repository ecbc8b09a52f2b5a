"""Norms with quantized results: one step that writes bytes, and floats too if they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cpuaccel
from compile import _pt2e
from compile._compiled import Lambda, needs_onednn
from cpuaccel import _native

pytestmark = needs_onednn

WIDTH = 40

Forward = Callable[[Any, Tensor, Tensor], Any]

FORMS: dict[str, tuple[Forward, str]] = {
    "norm": (lambda self, x, y: self.linear(self.norm(x)), "LayerNorm+quantize"),
    "sum": (lambda self, x, y: self.linear(self.norm(x + y)), "Add+LayerNorm+quantize"),
    "norm read beside": (
        lambda self, x, y: self.linear(n := self.norm(x)) + n.sigmoid(),
        "LayerNorm+quantize",
    ),
    "sum read beside": (
        lambda self, x, y: self.linear(self.norm(s := x + y)) + s.sigmoid(),
        "Add+LayerNorm+quantize",
    ),
    "all read": (
        lambda self, x, y: self.linear(n := self.norm(s := x + y)) + s.sigmoid() + n.sigmoid(),
        "Add+LayerNorm+quantize",
    ),
    "norm returned": (
        lambda self, x, y: [self.linear(n := self.norm(x)), n],
        "LayerNorm+quantize",
    ),
    "a view between": (
        lambda self, x, y: self.linear(self.norm(x).reshape(-1, WIDTH)).sigmoid(),
        "LayerNorm+quantize",
    ),
    "read by two": (
        lambda self, x, y: self.linear(n := self.norm(x)) * self.other(n),
        "LayerNorm+quantize",
    ),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("threads", [1, 2])
def test_one_step(name: str, threads: int) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    forward, kinds = FORMS[name]
    layers = {"norm": nn.LayerNorm(WIDTH), "linear": nn.Linear(WIDTH, WIDTH)}
    model = Lambda(forward, **layers, other=nn.Linear(WIDTH, WIDTH))
    inputs = torch.randn(3, 9, WIDTH), torch.randn(3, 9, WIDTH)
    quantized = _pt2e.quantized(model, *inputs)
    with torch.no_grad():
        optimized = cpuaccel.optimize(quantized, inputs, time_budget=0)
        for given in (inputs, tuple(0.5 * each for each in inputs)):
            # A value may round to the next byte, because the norm sums in another order.
            torch.testing.assert_close(optimized(*given), quantized(*given), atol=0.05, rtol=0)
        (plan,) = cpuaccel.explain(optimized, inputs).plans
    found = [step.kinds for step in plan.steps if "quantize" in step.kinds]
    assert found == [kinds], [step.kinds for step in plan.steps]


PROGRAM = """graph 1 norm
value 0 f32 4x8
value 1 f32 4x8
value 2 u8 4x8
input 0
partition
op LayerNorm in 0 out 1 keep_stats=b:0 use_affine=b:0
partition
op quantize in 1 out 2 to_scale=f:{scale} to_zero_point=i:{zero_point}
"""


@pytest.mark.parametrize(
    ("scale", "zero_point", "reason"),
    [
        (0.0, 0, "to_scale: expected a number above 0, got 0.000000"),
        (-1.0, 0, "to_scale: expected a number above 0, got -1.000000"),
        (0.1, -1, "to_zero_point: expected 0 to 255, got -1"),
        (0.1, 256, "to_zero_point: expected 0 to 255, got 256"),
    ],
)
def test_an_invalid_quantizer_is_rejected(scale: float, zero_point: int, reason: str) -> None:
    reasons = _native.load().uncompilable_reasons(
        PROGRAM.format(scale=scale, zero_point=zero_point)
    )
    assert set(reasons) == {f"quantize: {reason}"}
    assert not any(_native.load().uncompilable_reasons(PROGRAM.format(scale=0.1, zero_point=9)))
