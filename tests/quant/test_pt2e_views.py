"""View ops between quantizers of PT2E models copy bytes."""

from __future__ import annotations

import torch
from compile._compiled import needs_onednn
from torch import Tensor

import cpuaccel
from quant.test_pt2e_ranges import CHANNELS, RANGES, SIDE, Net


def _shuffled(net: Net, x: Tensor) -> Tensor:
    """ShuffleNet's unit: shuffle the channels, convolve one half, and join it with the other."""
    x = net.used(net.conv(net.used(x)))
    y = net.used(torch.cat([x, net.used(x.relu())], 1))
    n, c, h, w = y.shape
    y = y.view(n, 2, c // 2, h, w).transpose(1, 2).contiguous().view(n, c, h, w)
    left, right = y.chunk(2, 1)
    return net.used(torch.cat([net.used(left), net.used(net.conv(net.used(right)))], 1))


def _read_twice(net: Net, x: Tensor) -> tuple[Tensor, Tensor]:
    """The same views as bytes, and as floats."""
    x = net.used(net.conv(net.used(x)))
    y = x.permute(0, 2, 3, 1).reshape(len(x), SIDE * SIDE, CHANNELS)
    return net.used(net.linear(net.used(y))), y.softmax(-1)


@needs_onednn
def test_a_shuffle_copies_bytes() -> None:
    net = Net(RANGES["uint8"], _shuffled).eval()
    x = torch.randn(2, CHANNELS, SIDE, SIDE, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        optimized = cpuaccel.optimize(net, (x,), time_budget=0)
        steps = [s for plan in cpuaccel.explain(optimized, (x,)).plans for s in plan.steps]
        found, expected = optimized(x), net(x)
    kinds = [kind for step in steps for kind in step.kinds.split("+")]
    assert kinds.count("q_conv") == 2
    assert kinds.count("q_shuffle") == 2
    # One dequantize, of the result.
    assert kinds.count("dequantize") == 1
    assert ((found - expected) / 0.04).abs().round().max() <= 1


@needs_onednn
def test_views_that_other_ops_read_stay() -> None:
    net = Net(RANGES["uint8"], _read_twice).eval()
    x = torch.randn(2, CHANNELS, SIDE, SIDE, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        optimized = cpuaccel.optimize(net, (x,), time_budget=0)
        found, expected = optimized(x), net(x)
        steps = [s for plan in cpuaccel.explain(optimized, (x,)).plans for s in plan.steps]
    kinds = [kind for step in steps for kind in step.kinds.split("+")]
    assert kinds.count("q_linear") == 1
    assert ((found[0] - expected[0]) / 0.04).abs().round().max() <= 1
    assert (found[1] - expected[1]).abs().max() < 0.02
