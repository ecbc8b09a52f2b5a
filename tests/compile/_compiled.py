"""Compiles models with the backend and compares them with eager mode."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from quant._engine import missing_front_end
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from cpuaccel import _native
from cpuaccel.compile.common import report

needs_onednn = pytest.mark.skipif(
    not hasattr(_native.native(), "find_partitions"),
    reason="cpuaccel is off, or built without oneDNN",
)

needs_vnni = pytest.mark.skipif(
    _native.native() is None or "avx512vnni" not in _native.load().cpu_features(),
    reason="cpuaccel._C.cpu_features() has no avx512vnni: plans run all layers on "
    "cpuaccel's kernels, which alone are exact there",
)

_module = _native.native()
libraries_are_exact = _module is not None and _module.isa() in (
    *("avx_vnni", "avx512_vnni", "avx512_vbmi"),
)
"""Whether FBGEMM's and oneDNN's int8 products are exact: without VNNI pairs exceed 16 bits."""


def skip_layers_of_libraries(model: nn.Module) -> None:
    """Skip a layer that only libraries have, if plans do not use theirs."""
    kinds = (nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
    if not libraries_are_exact and any(isinstance(each, kinds) for each in model.modules()):
        pytest.skip(
            "cpuaccel._C.isa() has no VNNI: only cpuaccel's kernels run, and lack this layer"
        )
    transposed = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
    if missing_front_end() and any(isinstance(each, transposed) for each in model.modules()):
        pytest.skip(f"torch's own kernel of a transposed layer is wrong; {missing_front_end()}")


class Lambda(nn.Module):
    """A function and its layers as a module."""

    def __init__(self, function: Callable[..., Any], **layers: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, *args: Tensor) -> Any:
        return self.function(self, *args)


class Net(Lambda):
    """A Lambda of one argument, which FX can trace."""

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


class Net2(Lambda):
    """A Lambda of two arguments, which FX can trace."""

    def forward(self, x: Tensor, y: Tensor) -> Any:
        return self.function(self, x, y)


def convolutions() -> nn.Module:
    """Return three convolutions with a pool for images of any size, the same each time."""
    torch.manual_seed(0)
    return Lambda(
        lambda self, x: self.last(F.max_pool2d(F.relu(self.b(F.relu(self.a(x)))), 2)),
        a=nn.Conv2d(3, 32, 3, padding=1),
        b=nn.Conv2d(32, 32, 3, padding=1),
        last=nn.Conv2d(32, 8, 1),
    ).eval()


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


def seen(
    model: nn.Module, *args: Any, atol: float = 1e-4, float64: bool = False, **options: Any
) -> report.Report:
    """Compile `model`, compare with eager mode (in float64), and return the report of its graph."""
    model = model.eval()
    with torch.no_grad():
        expected = model(*args)
        exact = _in_float64(model, *args) if float64 else expected
        report.clear()
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="cpuaccel", fullgraph=True, **options)
        for _ in range(2):
            found = compiled(*args)
            leaves = (tree_leaves(each) for each in (found, expected, exact))
            for a, b, c in zip(*leaves, strict=True):
                torch.testing.assert_close(a, c, atol=atol, rtol=1e-3, check_dtype=not float64)
                assert a.dtype == b.dtype
                assert a.stride() == b.stride() or a.numel() <= max(a.shape, default=1)
    (one,) = report.reports()
    return one


def _in_float64(model: nn.Module, *args: Tensor) -> Any:
    return copy.deepcopy(model).double()(*(each.double() for each in args))


def randomized(model: nn.Module) -> nn.Module:
    """Give batch norms statistics with which they are not the identity."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.5, 1.5)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0, 0.2)
    return model
