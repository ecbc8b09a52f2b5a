"""torch.compile under emulation: the cross compiler compiles Inductor's C++."""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn
from torch._inductor import config as inductor_config

import cpuaccel
from cpuaccel._native import load
from cpuaccel.compile.common import report

needs_compiler = pytest.mark.skipif(
    "CXX" not in os.environ, reason="tools/aarch64 run names the cross compiler in CXX"
)


@needs_compiler
@pytest.mark.parametrize("backend", ["inductor", "cpuaccel"])
def test_mlp(backend: str) -> None:
    model = nn.Sequential(nn.Linear(33, 64), nn.GELU(), nn.Linear(64, 10), nn.Softmax(-1)).eval()
    x = torch.randn(7, 33)
    with torch.no_grad():
        expected = model(x)
        compiled = torch.compile(model, backend=backend, fullgraph=True)
        torch.testing.assert_close(compiled(x), expected, atol=1e-5, rtol=1e-4)


FUNCTIONS = {
    "nothing": nn.Identity(),
    "relu": nn.ReLU(),
    "hardswish": nn.Hardswish(),
    "silu": nn.SiLU(),
    "gelu": nn.GELU(),
    "gelu_tanh": nn.GELU(approximate="tanh"),
}


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_linear_layers_are_packed_once_with_what_follows(dtype: torch.dtype) -> None:
    """One kernel with the bias and the post-op, on weights that are packed at the first call."""
    layers = [
        each
        for name, function in FUNCTIONS.items()
        for each in (nn.Linear(32, 32, bias=name != "silu"), function)
    ]
    model, x = nn.Sequential(*layers).to(dtype).eval(), torch.randn(2, 7, 32).to(dtype)
    with torch.no_grad():
        expected = model.double()(x.double())
        compiled = torch.compile(model.to(dtype), backend="cpuaccel", fullgraph=True)
        report.clear()
        found = compiled(x)
        tolerance = 1e-5 if dtype == torch.float32 else 0.02
        torch.testing.assert_close(found.double(), expected, atol=tolerance, rtol=tolerance)
        (made,) = report.reports()
        names = [() if name == "nothing" else (name,) for name in FUNCTIONS]
        assert made.kinds() == [("KeptLinear", *name) for name in names]
        cpuaccel.reset_stats()
        assert torch.equal(compiled(x), found)
        kept = cpuaccel.stats()["kept_weights"]
        assert (kept["hits"], kept["misses"]) == (len(FUNCTIONS), 0)
        providers = {row.provider for row in cpuaccel.explain(compiled).rows}
        assert providers == {"cpuaccel"}


@needs_compiler
def test_a_weight_that_changes_is_followed() -> None:
    layer, x = nn.Linear(16, 24).eval(), torch.randn(5, 16)
    with torch.no_grad():
        compiled = torch.compile(layer, backend="cpuaccel")
        compiled(x)
        layer.weight.mul_(2)
        torch.testing.assert_close(compiled(x), layer(x), atol=1e-5, rtol=1e-5)
        layer.weight.data.mul_(2)
        torch.testing.assert_close(compiled(x), layer(x), atol=1e-5, rtol=1e-5)
        assert cpuaccel.stats()["kept_weights"]["stale"] >= 2


@needs_compiler
@pytest.mark.skipif(
    not load().has_bf16_arithmetic(),
    reason="the core multiplies no bfloat16, nor does torch pack it",
)
@pytest.mark.parametrize("backend", ["inductor", "cpuaccel"])
def test_frozen_bfloat16_runs_no_reference_kernel(backend: str) -> None:
    """pytorch #180447: oneDNN has only a reference kernel for torch's packed weights there."""
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 48)).bfloat16().eval()
    x = torch.randn(16, 64).bfloat16()
    with torch.no_grad(), inductor_config.patch(freezing=True):
        expected = model(x)
        compiled = torch.compile(model, backend=backend)
        cpuaccel.reset_stats()
        torch.testing.assert_close(compiled(x), expected, atol=0.02, rtol=0.02)
        assert cpuaccel.stats()["calls"].get("packed_linear.cpuaccel", 0) == 2
        cpuaccel.config.set("max_isa", "neon")  # its panels have another layout
        try:
            torch.testing.assert_close(compiled(x), expected, atol=0.02, rtol=0.02)
        finally:
            cpuaccel.config.set("max_isa", "auto")


def test_optimize_says_what_is_missing_or_runs() -> None:
    """Without oneDNN Graph there are no regions: the original model runs."""
    model, x = nn.Sequential(nn.Linear(33, 64), nn.ReLU()).eval(), torch.randn(7, 33)
    with torch.no_grad():
        found = cpuaccel.optimize(model, (x,))(x)
        torch.testing.assert_close(found, model(x), atol=1e-5, rtol=1e-4)
