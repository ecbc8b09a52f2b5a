"""Float sums with a broadcast operand, as of embeddings: steps of family broadcast_add."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import cpuaccel
from compile import _bf16
from compile._compiled import Lambda, needs_onednn

pytestmark = needs_onednn

WIDTH = 48
TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


class Embedded(nn.Module):
    """The sum of embeddings and its norm, as in BERT; the sum has another reader too."""

    def __init__(self, keeps_part: bool = False) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.randn(7, WIDTH))
        self.kinds = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.keeps_part = keeps_part

    def forward(self, x: Tensor) -> Tensor:
        part = x + self.positions
        result = self.layer(self.norm(part + self.kinds))
        return result + part if self.keeps_part else result


def test_in_a_process_of_its_own() -> None:
    _bf16.in_a_process_of_its_own(__file__)


def _kernels(model: nn.Module, x: Tensor) -> dict[str, str]:
    (plan,) = cpuaccel.explain(model, (x,)).plans
    return {step.kinds: step.kernel for step in plan.steps}


@TYPES
@pytest.mark.parametrize("keeps_part", [False, True])
def test_embeddings(dtype: torch.dtype, keeps_part: bool) -> None:
    torch.manual_seed(0)
    model, x = Embedded(keeps_part).eval().to(dtype), torch.randn(3, 7, WIDTH).to(dtype)
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        found, eager = optimized(x), model(x)
        exact = copy.deepcopy(model).double()(x.double())
    error, of_eager = (float((each.double() - exact).abs().max()) for each in (found, eager))
    assert error <= 1.2 * of_eager + 1e-5


@TYPES
def test_the_step(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model, x = Embedded().eval().to(dtype), torch.randn(3, 7, WIDTH).to(dtype)
    with torch.no_grad():
        kernels = _kernels(cpuaccel.optimize(model, (x,), time_budget=0), x)
    sums = {kinds: kernel for kinds, kernel in kernels.items() if kinds.startswith("Add")}
    assert sums, kernels
    assert all(kernel.startswith("cpuaccel") for kernel in sums.values()), kernels


@TYPES
@pytest.mark.usefixtures("bf16_if_asked")
@pytest.mark.parametrize("sizes", [(3, 7, WIDTH), (2, 5, 6, 8)])
def test_operands_of_different_orders(dtype: torch.dtype, sizes: tuple[int, ...]) -> None:
    """As for a residual beside the result of attention: copied into one order before."""
    torch.manual_seed(0)
    order = (1, 0, *range(2, len(sizes)))
    lines = [sizes[each] for each in order]
    x, y = (torch.randn(*each).to(dtype) for each in (sizes, lines))
    layer = nn.Linear(sizes[-1], sizes[-1])
    sum_ = Lambda(lambda self, x, y: x + self.layer(y).permute(*order), layer=layer)
    model = sum_.eval().to(dtype)
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x, y), time_budget=0)
        torch.testing.assert_close(optimized(x, y), model(x, y))
        (plan,) = cpuaccel.explain(optimized, (x, y)).plans
    assert [step.kinds for step in plan.steps][-2:] == ["copy", "Add"]
