"""Models of public reports about torchao's int8 layers on CPUs: right in every way to run them."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from compile._compiled import needs_onednn
from torch import Tensor, nn

import cpuaccel
from torchao_int8._layers import KINDS, Kind, assert_right, exact, kinds

pytestmark = needs_onednn

Run = Callable[[Tensor], Tensor]


def _exported(model: nn.Module, x: Tensor) -> Run:
    """pytorch/ao 345 and pytorch/pytorch 137111: without `unwrap_tensor_subclass`."""
    file = io.BytesIO()
    torch.export.save(torch.export.export(model, (x,)), file)
    file.seek(0)
    return torch.export.load(file).module()


WAYS: dict[str, Callable[[nn.Module, Tensor], Run]] = {
    "eager": lambda model, x: model,
    "compiled": lambda model, x: torch.compile(model, backend="cpuaccel", fullgraph=True),
    "optimized": lambda model, x: cpuaccel.optimize(model, (x,), time_budget=0),
    "exported": _exported,
}
ways = pytest.mark.parametrize("way", WAYS)


@pytest.fixture(autouse=True)
def _new() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()


def _check(kind: Kind, linear: Any, x: Tensor, way: str) -> Tensor:
    """Run one layer in a way, and compare with float64."""
    with torch.no_grad():
        model = nn.Sequential(linear).eval()
        found = WAYS[way](model, x)(x)
        assert_right(kind, linear, x, found)
    return found


def _layer(kind: Kind, K: int, N: int, dtype: torch.dtype, **options: Any) -> Any:
    return kind.quantized(nn.Sequential(nn.Linear(K, N, **options).to(dtype)))[0]


@ways
@pytest.mark.parametrize("rows", [1, 16])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sums_before_the_scale_may_exceed_float16(way: str, dtype: torch.dtype, rows: int) -> None:
    """pytorch/ao 1662: a language model gave NaN with weights only, on several kinds of CPUs."""
    kind = KINDS["weight only"]
    float_layer = nn.Linear(1024, 32).to(dtype)
    nn.init.constant_(float_layer.weight, 0.02)
    linear: Any = kind.quantized(nn.Sequential(float_layer))[0]
    x = torch.full((rows, 1024), 4.0, dtype=dtype)
    assert (x.double() @ linear.weight.qdata.double().T).max() > torch.finfo(torch.float16).max
    assert _check(kind, linear, x, way).isfinite().all()


@ways
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_weights_only_in_each_dtype(way: str, dtype: torch.dtype) -> None:
    """pytorch/pytorch 135831: compiled in float16 the signal was 2.3 dB above the error, not 40."""
    kind = KINDS["weight only"]
    linear, x = _layer(kind, 64, 32, dtype), torch.randn(32, 64, dtype=dtype)
    model = nn.Sequential(linear).eval()
    with torch.no_grad():
        found = WAYS[way](model, x)(x)
        expected, _ = exact(kind, linear, x)
    assert found.dtype == dtype
    assert (found.double() - expected).norm() <= 0.01 * expected.norm()


@ways
@kinds
@pytest.mark.parametrize("sizes", [(1, 256), (1, 1, 256)])
def test_one_row(kind: Kind, way: str, sizes: tuple[int, ...]) -> None:
    """pytorch/ao 2376, pytorch/pytorch 147033: one token, compiled, raised errors of shapes."""
    linear = _layer(kind, 256, 512, torch.bfloat16, bias=False)
    x = torch.randn(sizes, dtype=torch.bfloat16)
    _check(kind, linear, x, way)


@ways
@kinds
def test_small_layers_keep_the_accuracy(kind: Kind, way: str) -> None:
    """pytorch/ao 1335: on a CPU the result was far from the float model's."""
    floats = nn.Sequential(
        *(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 30), nn.Linear(30, 40), nn.ReLU())
    )
    x = torch.randn(10, 10)
    with torch.no_grad():
        expected = floats(x)
        model = kind.quantized(floats).eval()
        found = WAYS[way](model, x)(x)
    assert (found - expected).norm() <= 0.05 * expected.norm()
