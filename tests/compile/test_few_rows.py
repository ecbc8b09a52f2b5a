"""Products of one row: steps of family gemm, on weights that are not packed."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cpuaccel
from compile._compiled import needs_onednn

pytestmark = needs_onednn

WIDTH = 96


class Chain(nn.Module):
    """Linear layers with ops between them, and a sum after them."""

    def __init__(self, function: Callable[[Tensor], Tensor], bias: bool) -> None:
        super().__init__()
        self.function = function
        self.first = nn.Linear(WIDTH, 2 * WIDTH, bias=bias)
        self.second = nn.Linear(2 * WIDTH, WIDTH, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(self.function(self.first(x)))


def _steps(model: nn.Module, x: Tensor) -> dict[str, str]:
    """The kernel of each kind of step."""
    found = re.findall(
        r"^(MatMul\S*) +(\S+ \S+)", str(cpuaccel.explain(model, (x,))), flags=re.MULTILINE
    )
    return dict(found)


def _optimized(model: nn.Module, x: Tensor) -> nn.Module:
    return cpuaccel.optimize(model.eval(), (x,), time_budget=0)


def _tanh_gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (F.relu, "MatMul+ReLU"),
        (F.gelu, "MatMul+GELU"),
        (_tanh_gelu, "MatMul+GELUTanh"),
        (F.silu, "MatMul+Sigmoid+Multiply"),
        (F.hardswish, "MatMul+HardSwish"),
    ],
)
def test_one_row(
    dtype: torch.dtype, bias: bool, function: Callable[[Tensor], Tensor], kind: str
) -> None:
    torch.manual_seed(0)
    model, x = Chain(function, bias).to(dtype), torch.randn(1, WIDTH, dtype=dtype)
    optimized = _optimized(model, x)
    steps = _steps(optimized, x)
    assert set(steps) == {kind, "MatMul+Add"}
    assert all(kernel.startswith("cpuaccel gemm:") for kernel in steps.values()), steps
    exact = copy.deepcopy(model).double()(x.double())
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(optimized(x).double(), exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("sizes", [(1, 1, WIDTH), (3, WIDTH), (2, 2, WIDTH)])
def test_up_to_four_rows_of_floats(sizes: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    model, x = Chain(F.relu, True), torch.randn(sizes)
    optimized = _optimized(model, x)
    kernels = _steps(optimized, x).values()
    assert all(kernel.startswith("cpuaccel gemm:") for kernel in kernels), kernels
    expected = model(x)
    torch.testing.assert_close(optimized(x), expected, rtol=1e-5, atol=1e-5)


def test_more_rows_are_onednns() -> None:
    torch.manual_seed(0)
    model, x = Chain(F.relu, True), torch.randn(5, WIDTH)
    kernels = _steps(_optimized(model, x), x).values()
    assert kernels
    assert all(kernel.startswith("onednn") for kernel in kernels), kernels


def test_weights_that_are_written_are_read() -> None:
    torch.manual_seed(0)
    model, x = Chain(F.relu, True), torch.randn(1, WIDTH)
    optimized = _optimized(model, x)
    with torch.no_grad():
        model.first.weight[3] = 2.0
        expected = model(x)
        torch.testing.assert_close(optimized(x), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_write_without_a_version_is_seen_at_once(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model, x = Chain(F.relu, True).to(dtype), torch.randn(1, WIDTH, dtype=dtype)
    with torch.no_grad():
        optimized = _optimized(model, x)
        for row in range(0, WIDTH, 7):
            model.second.weight.data[row, row] += 1
            torch.testing.assert_close(optimized(x), model(x), atol=1e-2, rtol=2e-2)
