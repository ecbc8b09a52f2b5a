"""Products and convolutions of floats against float64, on every rung of the core."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import cpuaccel
from cpuaccel._native import load
from cpuaccel.config import ISAS

RUNGS = ISAS[: ISAS.index(load().isa()) + 1]
ERRORS = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}


@pytest.fixture(params=RUNGS)
def _isa(request: pytest.FixtureRequest) -> Iterator[None]:
    before = cpuaccel.config.get("max_isa")
    cpuaccel.config.set("max_isa", request.param)
    yield
    cpuaccel.config.set("max_isa", before)


@pytest.fixture(params=["auto", "cpuaccel"])
def _provider(request: pytest.FixtureRequest) -> Iterator[None]:
    """By the table, and by our own kernels wherever they can."""
    before = cpuaccel.config.get("matmul_provider")
    cpuaccel.config.set("matmul_provider", request.param)
    yield
    cpuaccel.config.set("matmul_provider", before)


def close(found: torch.Tensor, expected: torch.Tensor, terms: int) -> None:
    """Assert that sums of `terms` products of normal numbers are right for their type."""
    error = (found.double() - expected).abs().max()
    assert float(error) <= ERRORS[found.dtype] * max(1.0, terms**0.5 * 3)


@pytest.mark.usefixtures("_isa", "_provider")
@pytest.mark.parametrize("dtype", ERRORS, ids=str)
@settings(max_examples=12)
@given(
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 70), st.integers(1, 40)),
    transposed=st.booleans(),
)
def test_matmul(dtype: torch.dtype, sizes: tuple[int, int, int], transposed: bool) -> None:
    M, K, N = sizes
    a = torch.randn(M, K).to(dtype)
    b = torch.randn(N, K).to(dtype).t() if transposed else torch.randn(K, N).to(dtype)
    close(a @ b, a.double() @ b.double(), K)


@pytest.mark.usefixtures("_provider")
@pytest.mark.parametrize("dtype", ERRORS, ids=str)
@pytest.mark.parametrize("M", [1, 8, 65])
def test_linear(dtype: torch.dtype, M: int) -> None:
    layer = nn.Linear(129, 67).to(dtype)
    x = torch.randn(M, 129).to(dtype)
    with torch.no_grad():
        expected = F.linear(x.double(), layer.weight.double(), layer.bias.double())
        close(layer(x), expected, 129)


def test_fast_math_rounds_to_bfloat16_and_no_further() -> None:
    a, b = torch.randn(64, 256), torch.randn(256, 96)
    expected = a.double() @ b.double()
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        error = float((a @ b - expected).abs().max())
    finally:
        torch.set_float32_matmul_precision(before)
    assert error <= 2**-7 * 256**0.5 * 3


@pytest.mark.usefixtures("_isa")
@pytest.mark.parametrize("groups", [1, 16])
def test_convolution(groups: int) -> None:
    layer, x = nn.Conv2d(16, 32, 3, padding=1, groups=groups), torch.randn(2, 16, 9, 11)
    with torch.no_grad():
        found = layer(x)
        close(found, layer.double()(x.double()), 9 * 16 // groups)


def test_prepacked() -> None:
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).eval()
    x = torch.randn(5, 64)
    with torch.no_grad():
        expected = model(x)
        packed = cpuaccel.prepack(model)
        torch.testing.assert_close(packed(x), expected, atol=1e-5, rtol=1e-5)
