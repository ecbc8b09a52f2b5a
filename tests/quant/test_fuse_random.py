"""`cpuaccel.quant.fuse` on random models of ops that it supports, and of some that it does not."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import cpuaccel
from quant._engine import needs_front_end, running
from quant._fuse import assert_same, fused_ops, image
from quant._models import seeded, static_fx

pytestmark = needs_front_end


def _halves(x: Tensor) -> Tensor:
    a, b = x.chunk(2, 1)
    return torch.cat((b, a), 1)


UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "relu6": lambda x: F.relu6(x, inplace=True),
    "hardswish": F.hardswish,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "gelu": F.gelu,
    "by hand": lambda x: x * torch.sigmoid(x),
    "dropout": lambda x: F.dropout(x, 0.5, False),
    "pool": lambda x: F.max_pool2d(x, 3, 1, 1),
    "transpose": lambda x: x.transpose(2, 3),
    "shuffle": lambda x: F.channel_shuffle(x, 2),
    "halves": _halves,
    "softmax": lambda x: torch.softmax(x, 1),
}
BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda a, b: a + b,
    "add_relu": lambda a, b: F.relu(a + b),
    "mul": lambda a, b: a * b,
    "gate": lambda a, b: a * torch.sigmoid(b.mean([2, 3], keepdim=True)),
    "cat": lambda a, b: torch.cat((a, b), 1)[:, ::2],
}
LAYERS = {
    "conv": lambda: nn.Conv2d(4, 4, 3, padding=1),
    "conv_bn": lambda: nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)),
    "depthwise": lambda: nn.Conv2d(4, 4, 3, padding=1, groups=4),
}

# One op: its name and the values that it reads, counted back from the last.
step = st.tuples(
    st.sampled_from([*LAYERS, *LAYERS, *UNARY, *BINARY]), st.integers(0, 2), st.integers(0, 3)
)


class Drawn(nn.Module):
    """The ops in sequence, each on one or two of the earlier values."""

    def __init__(self, steps: list[tuple[str, int, int]]) -> None:
        super().__init__()
        self.stem, self.steps = nn.Conv2d(3, 4, 3, padding=1), steps
        self.layers = nn.ModuleList(
            LAYERS[n]() if n in LAYERS else nn.Identity() for n, *_ in steps
        )

    def forward(self, x: Tensor) -> Tensor:
        values = [self.stem(x)]
        for layer, (name, a, b) in zip(self.layers, self.steps, strict=True):
            first, second = values[-1 - a % len(values)], values[-1 - b % len(values)]
            if name in LAYERS:
                values.append(layer(first))
            elif name in UNARY:
                values.append(UNARY[name](first))
            else:
                values.append(BINARY[name](first, second))
        return values[-1]


@given(st.lists(step, min_size=1, max_size=10), st.integers(0, 3))
def test_drawn_models(steps: list[tuple[str, int, int]], seed: int) -> None:
    with torch.no_grad(), running("auto"):
        x = image(seed, side=6)
        model = static_fx(seeded(lambda: Drawn(steps), seed), x)
        fused = cpuaccel.quant.fuse(model)
        assert len(fused.graph.nodes) <= len(model.graph.nodes) + 2 * len(steps)
        assert_same(fused, model, x)
        assert fused_ops(cpuaccel.quant.fuse(fused)) >= fused_ops(fused)
