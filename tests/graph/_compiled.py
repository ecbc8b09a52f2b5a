"""Models compiled on the backend, held against themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from cpuaccel import _native
from cpuaccel.graph import report

needs_onednn = pytest.mark.skipif(
    not hasattr(_native.native(), "find_partitions"),
    reason="cpuaccel is off, or built without oneDNN",
)


class Lambda(nn.Module):
    """A function, and the layers that it uses."""

    def __init__(self, function: Callable[..., Any], **layers: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, *args: Tensor) -> Any:
        return self.function(self, *args)


class Net(Lambda):
    """One that FX can trace: of one argument."""

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


class Net2(Lambda):
    """One that FX can trace: of two arguments."""

    def forward(self, x: Tensor, y: Tensor) -> Any:
        return self.function(self, x, y)


def normed(source: int, to: int) -> Any:
    """Return a convolution with batch norm and ReLU."""
    torch.manual_seed(0)
    return randomized(
        Lambda(
            lambda self, x: F.relu(self.norm(self.conv(x))),
            conv=nn.Conv2d(source, to, 3),
            norm=nn.BatchNorm2d(to),
        )
    ).eval()


def seen(model: nn.Module, *args: Any, atol: float = 1e-4, **options: Any) -> report.Report:
    """Compile `model`, compare with eager, and return what became of its graph."""
    model = model.eval()
    with torch.no_grad():
        expected = model(*args)
        report.clear()
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="cpuaccel", fullgraph=True, **options)
        for _ in range(2):
            found = compiled(*args)
            for a, b in zip(tree_leaves(found), tree_leaves(expected), strict=True):
                torch.testing.assert_close(a, b, atol=atol, rtol=1e-3)
                assert a.stride() == b.stride() or a.numel() <= max(a.shape, default=1)
    (one,) = report.reports()
    return one


def randomized(model: nn.Module) -> nn.Module:
    """Give batch norms statistics that are not those of a norm that does nothing."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.5, 1.5)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0, 0.2)
    return model
