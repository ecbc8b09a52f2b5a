"""bf16 and f16 models on CPUs without such arithmetic: regions in f32 arithmetic, as in fp32."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cpuaccel
from compile._compiled import Lambda, needs_onednn
from compile._transformers import WIDTH, Layer, needs_attention
from cpuaccel import _native
from cpuaccel.compile.common import report

pytestmark = needs_onednn

TYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


@pytest.fixture(params=TYPES)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    native = _native.load()
    found = TYPES[request.param]
    if native.has_bf16_arithmetic() if found == torch.bfloat16 else native.has_fp16_arithmetic():
        pytest.skip(f"this CPU has arithmetic of {found}")
    return found


def _steps(model: nn.Module, *inputs: Tensor) -> dict[str, str]:
    """The kernel of each kind of step."""
    text = str(cpuaccel.explain(model, inputs))
    return dict(re.findall(r"^([A-Z][A-Za-z+]+) +(cpuaccel\S* \S+|onednn\S* \S+)", text, re.M))


def _check(model: nn.Module, *inputs: Tensor) -> nn.Module:
    """Optimize and compare with float64; the error must not be larger than eager mode's."""
    optimized = cpuaccel.optimize(model.eval(), inputs, time_budget=0)
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(*(each.double() for each in inputs))
        eager = model(*inputs)
        found = optimized(*inputs)
    assert found.dtype == eager.dtype
    error, allowed = (float((each.double() - exact).norm()) for each in (found, eager))
    assert error <= 1.2 * allowed + 1e-4 * float(exact.norm())
    return optimized


def _regions(optimized: nn.Module) -> int:
    """How many regions the optimized model calls."""
    rows = cpuaccel.explain(optimized).rows
    return len({row.layer for row in rows if " call " in row.layer})


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("function", [F.silu, F.gelu, torch.tanh, torch.sigmoid])
def test_linear_layers_are_one_region(
    dtype: torch.dtype, rows: int, function: Callable[[Tensor], Tensor]
) -> None:
    torch.manual_seed(0)

    def gated(self: Any, x: Tensor) -> Tensor:
        result: Tensor = x + self.down(function(self.gate(x)) * self.up(x))
        return result

    layers = {"gate": nn.Linear(96, 160), "up": nn.Linear(96, 160), "down": nn.Linear(160, 96)}
    model, x = Lambda(gated, **layers).to(dtype), torch.randn(rows, 96, dtype=dtype)
    optimized = _check(model, x)
    kernels = _steps(optimized, x)
    assert kernels, cpuaccel.explain(optimized)
    assert all(kernel.startswith("cpuaccel") for kernel in kernels.values()), kernels
    packed = [kernel.endswith(":packed") for kind, kernel in kernels.items() if "MatMul" in kind]
    assert all(packed) if rows > 1 else not any(packed)


def test_products_of_activations(dtype: torch.dtype) -> None:
    torch.manual_seed(0)

    def attention(self: Any, x: Tensor) -> Tensor:
        heads = (x.unflatten(-1, (4, 16)).transpose(1, 2) for x in self.qkv(x).chunk(3, -1))
        query, key, value = heads
        weights = (query @ key.transpose(-1, -2)).sigmoid()
        result: Tensor = self.out((weights @ value).transpose(1, 2).flatten(2))
        return result

    model = Lambda(attention, qkv=nn.Linear(64, 192), out=nn.Linear(64, 64)).to(dtype)
    _check(model, torch.randn(2, 12, 64, dtype=dtype))


@needs_attention
def test_layers_of_an_encoder_are_one_region(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Layer(False), Layer(True)).to(dtype)
    x = torch.randn(1, 20, WIDTH, dtype=dtype)
    kernels = _steps(_check(model, x), x)
    assert {"MatMul", "LayerNorm", "attention"} <= {kind.split("+")[0] for kind in kernels} | {
        "attention"
    }
    with torch.no_grad():
        report.clear()
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="cpuaccel", fullgraph=True)(x)
    torch.testing.assert_close(compiled, model(x), rtol=0.05, atol=0.05)
    (found,) = report.reports()
    assert len(found.regions) == 1


def test_weights_that_change_are_seen(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64)).to(dtype).eval()
    x = torch.randn(20, 64, dtype=dtype)
    optimized = cpuaccel.optimize(model, (x,), time_budget=0)
    with torch.no_grad():
        optimized(x)
        nn.init.normal_(model[2].weight)
        torch.testing.assert_close(optimized(x), model(x), rtol=0.05, atol=0.2)
