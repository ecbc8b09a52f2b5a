"""PT2E models whose activations are int8, or a part of the 8-bit integers: plans run in int8."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from compile._compiled import needs_onednn
from torch import Tensor, nn

import cpuaccel
from cpuaccel import _decomposed_ops  # noqa: F401  # defines torch.ops.quantized_decomposed

CHANNELS, SIDE = 8, 6


@dataclass(frozen=True)
class Range:
    """Scale, zero point, limits and dtype of a quantizer."""

    scale: float
    zero_point: int
    lowest: int
    highest: int
    dtype: torch.dtype

    def codes(self, x: Tensor) -> Tensor:
        q = torch.ops.quantized_decomposed
        return q.quantize_per_tensor(
            x, self.scale, self.zero_point, self.lowest, self.highest, self.dtype
        )

    def real(self, codes: Tensor) -> Tensor:
        q = torch.ops.quantized_decomposed
        return q.dequantize_per_tensor(
            codes, self.scale, self.zero_point, self.lowest, self.highest, self.dtype
        )

    def __call__(self, x: Tensor) -> Tensor:
        return self.real(self.codes(x))


RANGES = {
    "uint8": Range(0.04, 120, 0, 255, torch.uint8),
    "uint8 of 7 bits": Range(0.06, 60, 0, 127, torch.uint8),
    "int8": Range(0.04, -8, -128, 127, torch.int8),
    "symmetric int8": Range(0.04, 0, -127, 127, torch.int8),
    "int8 of 7 bits": Range(0.07, 3, -64, 63, torch.int8),
}
EACH = pytest.mark.parametrize("used", RANGES.values(), ids=RANGES)


class Net(nn.Module):
    """`function` between quantizers of one range, with a convolution and a linear layer."""

    def __init__(self, used: Range, function: Callable[[Net, Tensor], Tensor]) -> None:
        super().__init__()
        self.used, self.function = used, function
        generator = torch.Generator().manual_seed(1)
        for name, sizes in (("conv", (CHANNELS, CHANNELS, 3, 3)), ("linear", (CHANNELS, CHANNELS))):
            codes = torch.randint(-20, 20, sizes, generator=generator, dtype=torch.int8)
            self.register_buffer(f"{name}_weight", codes)
        self.register_buffer("scales", torch.full((CHANNELS,), 0.01))
        self.register_buffer("zeros", torch.zeros(CHANNELS, dtype=torch.int64))
        self.bias = nn.Parameter(torch.randn(CHANNELS, generator=generator), requires_grad=False)

    def _weight(self, codes: Tensor) -> Tensor:
        q = torch.ops.quantized_decomposed
        return q.dequantize_per_channel(codes, self.scales, self.zeros, 0, -128, 127, torch.int8)

    def conv(self, x: Tensor) -> Tensor:
        return torch.conv2d(x, self._weight(self.conv_weight), self.bias, padding=1)

    def linear(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self._weight(self.linear_weight), self.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)


def _conv(net: Net, x: Tensor) -> Tensor:
    return net.used(net.conv(net.used(net.conv(net.used(x)).relu())))


def _silu(net: Net, x: Tensor) -> Tensor:
    return net.used(nn.functional.silu(net.conv(net.used(x))))


def _residual(net: Net, x: Tensor) -> Tensor:
    x = net.used(x)
    return net.used((net.conv(x) + x).relu())


def _linear(net: Net, x: Tensor) -> Tensor:
    return net.used(net.linear(net.used(x.permute(0, 2, 3, 1))))


def _shuffled_views(net: Net, x: Tensor) -> Tensor:
    y = net.linear(net.used(x.permute(0, 2, 3, 1)))
    return net.used(y.reshape(len(x), SIDE * SIDE, 2, 4).transpose(1, 2))


def _ops(net: Net, x: Tensor) -> Tensor:
    x = net.used(net.conv(net.used(x)))  # a plan without a layer would not pay
    y = net.used(x + net.used(nn.functional.max_pool2d(x, 3, 1, 1)))
    y = net.used(torch.cat([y, x], 1))
    return net.used(nn.functional.avg_pool2d(y, 2))


CASES = {
    "conv": (_conv, {"q_conv"}),
    "silu": (_silu, {"q_conv"}),
    "residual": (_residual, {"q_conv"}),
    "linear": (_linear, {"q_linear"}),
    "views": (_shuffled_views, {"q_linear"}),
    "ops": (_ops, {"q_conv", "q_add", "q_max_pool", "q_concat", "q_avg_pool"}),
}


@needs_onednn
@EACH
@pytest.mark.parametrize("case", CASES)
def test_plans_run_all_ranges_in_int8(case: str, used: Range) -> None:
    function, wanted = CASES[case]
    net = Net(used, function).eval()
    x = torch.randn(2, CHANNELS, SIDE, SIDE, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        optimized = cpuaccel.optimize(net, (x,), time_budget=0)
        assert optimized.verdict is not None
        assert optimized.verdict.runs == "plan"
        steps = [s for plan in cpuaccel.explain(optimized, (x,)).plans for s in plan.steps]
        found, expected = optimized(x), net(x)
    kinds = {kind for step in steps for kind in step.kinds.split("+")}
    assert wanted <= kinds
    assert not kinds & {"Convolution", "MatMul", "Add", "Concat", "MaxPool", "AvgPool"}, kinds
    # A float sum may lie on the border of two integers.
    steps_off = ((found - expected) / used.scale).abs().round()
    assert steps_off.max() <= 1
    # The average of four integers often does: a quarter of them ends in a half.
    assert (steps_off > 0).float().mean() < (0.15 if case == "ops" else 0.02)


@needs_onednn
@EACH
def test_integers_that_leave_the_model_keep_their_dtype(used: Range) -> None:
    class Codes(Net):
        def forward(self, x: Tensor) -> Tensor:
            return self.used.codes(self.conv(self.used(x)))

    net = Codes(used, _conv).eval()
    x = torch.randn(1, CHANNELS, SIDE, SIDE, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        optimized = cpuaccel.optimize(net, (x,), time_budget=0)
        found, expected = optimized(x), net(x)
    assert found.dtype == used.dtype
    assert (found.int() - expected.int()).abs().max() <= 1


class Dynamic(nn.Module):
    """A linear layer whose source is quantized by its own range."""

    def __init__(self, lowest: int, highest: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.range = lowest, highest, dtype
        codes = torch.randint(-100, 100, (16, 32), generator=torch.Generator().manual_seed(1))
        self.register_buffer("weight", codes.to(torch.int8))
        self.register_buffer("scales", torch.full((16,), 0.01))
        self.register_buffer("zeros", torch.zeros(16, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        q = torch.ops.quantized_decomposed
        lowest, highest, dtype = self.range
        scale, zero = q.choose_qparams.tensor(x, lowest, highest, 2**-12, dtype)
        codes = q.quantize_per_tensor.tensor(x, scale, zero, lowest, highest, dtype)
        x = q.dequantize_per_tensor.tensor(codes, scale, zero, lowest, highest, dtype)
        weight = q.dequantize_per_channel(
            self.weight, self.scales, self.zeros, 0, -128, 127, torch.int8
        )
        return nn.functional.linear(x, weight)


@needs_onednn
@pytest.mark.parametrize(
    ("lowest", "highest", "dtype"),
    [(0, 255, torch.uint8), (0, 127, torch.uint8), (-128, 127, torch.int8)],
    ids=["uint8", "uint8 of 7 bits", "int8"],
)
def test_dynamic_ranges(lowest: int, highest: int, dtype: torch.dtype) -> None:
    model = Dynamic(lowest, highest, dtype).eval()
    x = torch.randn(5, 32, generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        steps = [s for plan in cpuaccel.explain(optimized, (x,)).plans for s in plan.steps]
        found, expected = optimized(x), model(x)
    assert [(step.kinds, step.dtype) for step in steps] == [("q_linear_dynamic", "u8")]
    assert (found - expected).abs().max() / expected.abs().max() < 0.01
