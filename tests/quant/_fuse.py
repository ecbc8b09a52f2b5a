"""Models for the tests of `cpuaccel.quant.fuse`, and the ops that were fused in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from quant._engine import running
from quant._models import seeded, static_fx

CHANNELS = 8


class Lambda(nn.Module):
    """A function as a module that FX traces into."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def conv(channels: int = CHANNELS, source: int = CHANNELS, kernel: int = 3) -> nn.Conv2d:
    return nn.Conv2d(source, channels, kernel, padding=kernel // 2)


def after_conv(*activations: nn.Module) -> nn.Module:
    return nn.Sequential(conv(source=3), *activations, conv(kernel=1))


def image(seed: int = 0, channels: int = 3, batch: int = 2, side: int = 9) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, channels, side, side, generator=generator)


def quantized(make: Callable[[], nn.Module], x: Tensor) -> torch.fx.GraphModule:
    """The convert_fx model, packed for the current engine."""
    return static_fx(seeded(make), x)


def fused_ops(model: nn.Module) -> Counter[str]:
    """Counts the ops that a model's fused modules replace, without single layers."""
    from cpuaccel.quant.fused import Conv2d, Fused, Linear

    modules = (m for m in model.modules() if isinstance(m, Fused))
    return Counter(" + ".join(m.ops) for m in modules if not isinstance(m, (Conv2d, Linear)))


def assert_fuses(make: Callable[[], nn.Module], x: Tensor, *expected: str) -> nn.Module:
    """Checks that fusing gives exactly these ops, and returns the fused model.

    Its results must equal those of the original model, with cpuaccel enabled and disabled, for this
    image and others.
    """
    from cpuaccel.quant import fuse

    with torch.no_grad(), running("auto"):
        model = quantized(make, x)
        fused = fuse(model)
        assert fused_ops(fused) == Counter(expected), (fused_ops(fused), fused.graph)
        assert_same(fused, model, x)
    with torch.no_grad(), running("intree"):
        assert_same(fuse(model), model, x)
        assert_same(fused, model, x)
    return fused


def assert_same(fused: nn.Module, model: nn.Module, x: Tensor) -> None:
    for seed in range(3):
        y = torch.randn(x.shape, generator=torch.Generator().manual_seed(100 + seed))
        for given in (y, 10 * y):
            expected, got = model(given), fused(given)
            assert got.dtype == expected.dtype
            assert torch.equal(got, expected), f"{int((got != expected).sum())} values differ"


def squeeze_excite(x: Tensor, reduce: nn.Module, expand: nn.Module) -> Tensor:
    return x * torch.sigmoid(expand(F.relu(reduce(F.adaptive_avg_pool2d(x, 1)))))
