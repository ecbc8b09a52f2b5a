"""Products of several rows: by family gemm on packed weights, or by oneDNN, whichever is faster."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cpuaccel
from compile import _bf16
from compile._compiled import Lambda, needs_onednn
from compile.test_few_rows import Chain, _optimized, _steps, _tanh_gelu
from compile.test_float_tuning import _set_rank
from cpuaccel import _native, config

pytestmark = [needs_onednn, pytest.mark.usefixtures("tuning_cache_file", "bf16_if_asked")]

WIDTH = 96
OURS, ONEDNNS = 1, 0
"""Tuning results: which provider was faster."""
TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


def test_in_a_process_of_its_own() -> None:
    _bf16.in_a_process_of_its_own(__file__)


def _problems(kind: str = "rows") -> list[str]:
    return [each for each in _native.load().tuning_results() if each.startswith(f"{kind} ")]


def _is_exact(found: Tensor, model: nn.Module, x: Tensor, tolerance: float) -> None:
    exact = copy.deepcopy(model).double()(x.double())
    torch.testing.assert_close(found.double(), exact, rtol=tolerance, atol=tolerance)


@TYPES
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [(5,), (2, 8), (64,)])
@pytest.mark.parametrize("function", [F.relu, F.gelu, _tanh_gelu, F.silu, F.hardswish])
def test_both_ways_compute_the_same(
    dtype: torch.dtype, bias: bool, rows: tuple[int, ...], function: Callable[[Tensor], Tensor]
) -> None:
    torch.manual_seed(0)
    model, x = Chain(function, bias).to(dtype), torch.randn(*rows, WIDTH).to(dtype)
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    with torch.no_grad():
        optimized = _optimized(model, x)
        optimized(x)
        assert len(_problems()) == 2
        for rank in (OURS, ONEDNNS):
            _set_rank(rank)
            _is_exact(optimized(x), model, x, tolerance)


@TYPES
@pytest.mark.parametrize(
    ("function", "bias", "rows"),
    [
        (F.relu, True, (5,)),
        (F.gelu, False, (2, 8)),
        (_tanh_gelu, True, (64,)),
        (F.silu, True, (2, 8)),
        (F.hardswish, False, (64,)),
    ],
)
def test_the_steps_of_both(
    dtype: torch.dtype, function: Callable[[Tensor], Tensor], bias: bool, rows: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    model, x = Chain(function, bias).to(dtype), torch.randn(*rows, WIDTH).to(dtype)
    with torch.no_grad():
        optimized = _optimized(model, x)
        optimized(x)
        for rank, kernel in ((OURS, "cpuaccel gemm"), (ONEDNNS, "onednn")):
            _set_rank(rank)
            steps = _steps(optimized, x)
            assert len(steps) == 2
            assert all(each.startswith(kernel) for each in steps.values()), steps
            assert all(each.endswith(":packed") == bool(rank) for each in steps.values()), steps


_module = _native.native()
_has_avx2 = _module is not None and _module.isa().startswith("avx")


@pytest.mark.skipif(
    not _has_avx2,
    reason="more than 64 rows of floats are tuned only with AVX2 (packed_rows_step.cpp): "
    "cpuaccel._C.isa() says which instructions are in use",
)
@pytest.mark.parametrize("rows", [(65,), (3, 111)])
@pytest.mark.parametrize("function", [F.relu, F.gelu])
def test_many_rows(rows: tuple[int, ...], function: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    model, x = Chain(function, True), torch.randn(*rows, WIDTH)
    with torch.no_grad():
        optimized = _optimized(model, x)
        for rank, kernel in ((OURS, "cpuaccel gemm"), (ONEDNNS, "onednn")):
            _set_rank(rank)
            _is_exact(optimized(x), model, x, 1e-5)
            steps = _steps(optimized, x)
            assert all(each.startswith(kernel) for each in steps.values()), steps


def test_more_rows_are_onednns() -> None:
    most = 1 << 18 if _has_avx2 else 64
    model, x = Chain(F.relu, True), torch.randn(most + 1, WIDTH)
    with torch.no_grad():
        steps = _steps(_optimized(model, x), x)
    assert not _problems()
    assert all(kernel.startswith("onednn") for kernel in steps.values()), steps


def test_odd_sizes_and_rows_of_two_plans() -> None:
    """The weights are packed once for both plans."""
    torch.manual_seed(0)
    model = nn.Linear(77, 101).eval()
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (torch.randn(7, 77),), time_budget=0)
        for rows in (7, 33):
            optimized(torch.randn(rows, 77))
        _set_rank(OURS)
        for rows in (7, 33):
            x = torch.randn(rows, 77)
            _is_exact(optimized(x), model, x, 1e-5)


def test_fast_math(bf16: None) -> None:
    torch.manual_seed(0)
    model, x = Chain(F.gelu, True), torch.randn(16, WIDTH)
    with torch.no_grad(), cpuaccel.fastmath():
        optimized = _optimized(model, x)
        for rank in (OURS, ONEDNNS):
            _set_rank(rank)
            _is_exact(optimized(x), model, x, 2e-2)
        _set_rank(OURS)
        optimized(x)
        assert all("gemm_bf16" in kernel for kernel in _steps(optimized, x).values())


@pytest.mark.parametrize("fast_first", [False, True])
def test_fast_math_has_weights_of_its_own(fast_first: bool, bf16: None) -> None:
    torch.manual_seed(0)
    model, x = Chain(F.gelu, True), torch.randn(16, WIDTH)
    with torch.no_grad():
        optimized = _optimized(model, x)
        optimized(x)
        with cpuaccel.fastmath():
            optimized(x)
        _set_rank(OURS)
        found = {}
        for fast in (fast_first, not fast_first):
            with cpuaccel.fastmath(fast):
                found[fast] = optimized(x)
        _is_exact(found[False], model, x, 1e-5)
        assert 1e-4 < (found[True] - found[False]).norm() / found[False].norm() < 2e-2


class Block(nn.Module):
    """1x1 convolutions: with a post-op, with a sum, with both."""

    def __init__(self, bias: bool, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.narrow = nn.Conv2d(40, 24, 1, bias=bias)
        self.wide = nn.Conv2d(24, 40, 1, bias=bias)
        self.last = nn.Conv2d(40, 40, 1, bias=bias)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        x = self.function(self.wide(self.function(self.narrow(x))) + x)
        return self.last(x) + x


@TYPES
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("sizes", [(1, 7, 7), (3, 2, 5)])
@pytest.mark.parametrize("function", [F.relu, F.silu, F.hardswish])
def test_convolutions_of_pixels(
    dtype: torch.dtype,
    bias: bool,
    sizes: tuple[int, int, int],
    function: Callable[[Tensor], Tensor],
) -> None:
    torch.manual_seed(0)
    N, H, W = sizes
    model = Block(bias, function).eval().to(dtype)
    x = torch.randn(N, 40, H, W).to(dtype, memory_format=torch.channels_last)
    with torch.no_grad():
        optimized = _optimized(model, x)
        optimized(x)
        assert _problems("pixels")
        for rank, kernel in ((OURS, "cpuaccel gemm"), (ONEDNNS, "onednn")):
            _set_rank(rank)
            _is_exact(optimized(x), model, x, 1e-5 if dtype == torch.float32 else 3e-2)
            steps = _steps(optimized, x)
            assert all(each.startswith(kernel) for each in steps.values()), steps
            assert all(each.endswith(":packed") == bool(rank) for each in steps.values()), steps


@TYPES
@pytest.mark.parametrize(
    ("conv", "sizes"), [(nn.Conv1d, (2, 24, 9)), (nn.Conv3d, (1, 24, 2, 3, 4))]
)
def test_convolutions_of_other_dimensions(
    dtype: torch.dtype, conv: type[nn.Module], sizes: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(conv(24, 24, 1), nn.ReLU(), conv(24, 8, 1)).eval().to(dtype)
    x = torch.randn(*sizes).to(dtype)
    with torch.no_grad():
        optimized = _optimized(model, x)
        optimized(x)
        for rank in (OURS, ONEDNNS):
            _set_rank(rank)
            _is_exact(optimized(x), model, x, 1e-5 if dtype == torch.float32 else 3e-2)


class Residual(nn.Module):
    """An addend without later readers, which oneDNN's sum overwrites."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(16, 16, 3, padding=1)
        self.b = nn.Conv2d(16, 16, 1)
        self.c = nn.Conv2d(16, 16, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        y = F.relu(self.b(F.relu(x)) + x)
        return self.c(y)


@TYPES
def test_a_sum_over_its_addend(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = Residual().eval().to(dtype)
    x = torch.randn(1, 16, 6, 5).to(dtype, memory_format=torch.channels_last)
    with torch.no_grad():
        optimized = _optimized(model, x)
        optimized(x)
        assert any(each.split(" function")[0].endswith(" over") for each in _problems("pixels"))
        for rank in (OURS, ONEDNNS):
            _set_rank(rank)
            _is_exact(optimized(x), model, x, 1e-5 if dtype == torch.float32 else 3e-2)


@pytest.mark.parametrize("sizes", [(1,), (5,), (1, 1, 5), (8, 1, 1)])
@pytest.mark.parametrize("times", [False, True])
def test_operands_of_other_sizes(sizes: tuple[int, ...], times: bool) -> None:
    """As with a learned scale: no product of rows, but correct."""
    torch.manual_seed(0)
    layer, other = nn.Conv2d(8, 8, 1).eval(), nn.Parameter(torch.randn(*sizes))
    model = Lambda(lambda self, x: self.layer(x) * other if times else self.layer(x) + other)
    model.add_module("layer", layer)
    x = torch.randn(1, 8, 6, 5).to(memory_format=torch.channels_last)
    with torch.no_grad():
        found = _optimized(model, x)(x)
        result = layer.double()(x.double())
        exact = result * other.double() if times else result + other.double()
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-5)


@TYPES
def test_convolutions_of_one_pixel(dtype: torch.dtype) -> None:
    """As in squeeze-and-excite: the weights are not packed."""
    torch.manual_seed(0)
    model, x = Block(True, F.silu).eval().to(dtype), torch.randn(1, 40, 1, 1).to(dtype)
    with torch.no_grad():
        optimized = _optimized(model, x)
        _is_exact(optimized(x), model, x, 1e-5 if dtype == torch.float32 else 3e-2)
        steps = _steps(optimized, x)
    assert not _problems("pixels")
    assert all(each.startswith("cpuaccel gemm") for each in steps.values()), steps


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(8, 8, 3, padding=1),
        nn.Conv2d(8, 8, 1, stride=2),
        nn.Conv2d(8, 8, 1, padding=1),
        nn.Conv2d(8, 8, 1, groups=2),
    ],
)
def test_other_convolutions_are_no_products(layer: nn.Module) -> None:
    x = torch.randn(1, 8, 6, 6).to(memory_format=torch.channels_last)
    with torch.no_grad():
        _optimized(layer.eval(), x)(x)
    assert not _problems("pixels")


def test_problems_that_are_not_timed_run_on_onednn() -> None:
    config.set("deterministic", True)
    model, x = Chain(F.relu, True), torch.randn(16, WIDTH)
    with torch.no_grad():
        steps = _steps(_optimized(model, x), x)
    assert not _problems()
    assert all(kernel.startswith("onednn") for kernel in steps.values()), steps
