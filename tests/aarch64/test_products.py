"""Float products and convolutions against float64, on every ISA of the core."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F
from _settings import setting
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import cpuaccel
from cpuaccel._native import load
from cpuaccel.config import ISAS

ISAS_HERE = ISAS[: ISAS.index(load().isa()) + 1]
PROVIDER = "matmul_provider"
ERRORS = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}


@pytest.fixture(params=ISAS_HERE)
def _isa(request: pytest.FixtureRequest) -> Iterator[None]:
    with setting("max_isa", request.param):
        yield


@pytest.fixture(params=["auto", "cpuaccel"])
def _provider(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs with the provider table, and with cpuaccel's kernels wherever they can run."""
    with setting("matmul_provider", request.param):
        yield


def close(found: torch.Tensor, expected: torch.Tensor, terms: int) -> None:
    """Assert that sums of `terms` products of normal numbers are correct for their type."""
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


@contextmanager
def _on_cpuaccel_kernels(fast_math: bool) -> Iterator[None]:
    precision = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium" if fast_math else "highest")
        with setting(PROVIDER, "cpuaccel"):
            yield
    finally:
        torch.set_float32_matmul_precision(precision)


def _by_torch_backend() -> None:
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"


def _by_precision() -> None:
    torch.set_float32_matmul_precision("medium")


@pytest.mark.parametrize("switch", [_by_torch_backend, _by_precision])
def test_fast_math_rounds_to_bfloat16_and_no_further(switch: Callable[[], None]) -> None:
    a, b = torch.randn(64, 256), torch.randn(256, 96)
    expected = a.double() @ b.double()
    exact = float((a @ b - expected).abs().max())
    before = torch.get_float32_matmul_precision(), torch.backends.mkldnn.matmul.fp32_precision
    try:
        switch()
        error = float((a @ b - expected).abs().max())
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.mkldnn.matmul.fp32_precision = before[1]
    if load().has_bf16_arithmetic():
        assert error > 10 * exact
    assert error <= 2**-7 * 256**0.5 * 3


@pytest.mark.usefixtures("_isa")
@pytest.mark.parametrize("groups", [1, 16])
def test_convolution(groups: int) -> None:
    layer, x = nn.Conv2d(16, 32, 3, padding=1, groups=groups), torch.randn(2, 16, 9, 11)
    with torch.no_grad():
        found = layer(x)
        close(found, layer.double()(x.double()), 9 * 16 // groups)


@pytest.mark.parametrize("M", [1, 5, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_prepacked(dtype: torch.dtype, M: int) -> None:
    # 128 and 36 rows are not multiples of long vectors' panels, so other kernels run.
    model = nn.Sequential(nn.Linear(66, 128), nn.ReLU(), nn.Linear(128, 36)).to(dtype).eval()
    plain = copy.deepcopy(model.state_dict())
    x = torch.randn(M, 66).to(dtype)
    with torch.no_grad():
        expected = model.double()(x.double())
        model.to(dtype)
        packed = cpuaccel.prepack(model)
        cpuaccel.reset_stats()
        close(packed(x), expected, 128)
        assert cpuaccel.stats()["calls"]["packed_linear.cpuaccel"] == 2
        for name, value in packed.state_dict().items():
            assert torch.equal(value, plain[name])


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_eager_weights_are_packed_once_and_followed(dtype: torch.dtype, fast: bool) -> None:
    """Packed once for all calls, and again after a change, even one that torch does not notice."""
    layer, x = nn.Linear(64, 48).to(dtype), torch.randn(20, 64).to(dtype)
    with _on_cpuaccel_kernels(fast), torch.no_grad():
        cpuaccel.clear_caches()
        cpuaccel.reset_stats()
        for _ in range(3):
            found = layer(x)
        assert cpuaccel.stats()["weight_cache"]["misses"] == 1
        assert cpuaccel.stats()["weight_cache"]["hits"] == 2
        layer.weight.data.mul_(2)
        layer.bias.data.mul_(2)
        torch.testing.assert_close(layer(x), 2 * found)
        assert cpuaccel.stats()["weight_cache"]["stale"] == 1


@pytest.mark.skipif("not load().has_bf16_arithmetic()", reason="the core has no BF16 arithmetic")
def test_packed_floats_are_rounded_once_under_fast_math() -> None:
    layer, x = nn.Linear(64, 48), torch.randn(20, 64)
    with torch.no_grad():
        expected = layer(x.bfloat16().float())
        packed = cpuaccel.prepack(layer)
        with _on_cpuaccel_kernels(fast_math=True):
            cpuaccel.clear_caches()
            cpuaccel.reset_stats()
            for rows in (20, 3, 1):
                torch.testing.assert_close(packed(x[:rows]), expected[:rows], atol=0.02, rtol=0.02)
        assert cpuaccel.stats()["weight_cache"]["misses"] == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_second_call_creates_no_primitive_of_onednn(
    dtype: torch.dtype, capfd: pytest.CaptureFixture[str]
) -> None:
    """torch's kernels find it in their cache; cpuaccel's kernels do not call oneDNN."""
    layer, x = nn.Linear(64, 64).to(dtype), torch.randn(32, 64).to(dtype)
    verbose = torch.backends.mkldnn.VERBOSE_ON_CREATION

    def said(provider: str) -> str:
        with setting(PROVIDER, provider):
            with torch.no_grad(), torch.backends.mkldnn.verbose(verbose):
                layer(x)
            return capfd.readouterr().out

    first, second = said("intree"), said("intree")
    by_onednn = dtype == torch.float32 or load().has_bf16_arithmetic()
    assert ("create:cache_miss" in first) == by_onednn
    assert "create:cache_miss" not in second
    said("cpuaccel")
    assert "onednn_verbose" not in said("cpuaccel")
