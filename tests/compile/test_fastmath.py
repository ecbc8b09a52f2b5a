"""Float plans under BF16 fast math."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cpuaccel
from compile._compiled import needs_onednn

pytestmark = [needs_onednn, pytest.mark.usefixtures("bf16")]


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 32, 3, padding=1)
        self.second = nn.Conv2d(32, 32, 3, padding=1)
        self.linear = nn.Linear(32, 48)
        self.last = nn.Linear(48, 16)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv(x))
        x = F.relu(self.second(x) + x).mean((2, 3))
        y: Tensor = self.last(F.gelu(self.linear(x)))
        return y


def _rounded(net: nn.Module, x: Tensor) -> float:
    """Return the error of eager bf16 against fp32."""
    expected = net(x)
    return _distance(net.bfloat16()(x.bfloat16()).float(), expected)


def _distance(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("compiled", [False, True], ids=["optimize", "compile"])
def test_layers_multiply_in_bf16_while_it_is_asked_for(compiled: bool) -> None:
    torch.manual_seed(0)
    net, x = _Net().eval(), torch.randn(4, 3, 12, 12)
    with torch.no_grad():
        expected = net(x)
        plan = (
            torch.compile(net, backend="cpuaccel")
            if compiled
            else cpuaccel.optimize(net, (x,), time_budget=0)
        )
        exact = plan(x)
        with cpuaccel.fastmath():
            fast, again = plan(x), plan(x)
        after = plan(x)
    torch.testing.assert_close(exact, expected, atol=1e-5, rtol=1e-4)
    assert torch.equal(after, exact)
    assert torch.equal(fast, again)
    assert fast.dtype == torch.float32
    # Sums and results stay fp32, so it is more accurate than a bf16 model.
    with torch.no_grad():
        limit = _rounded(_Net().eval(), x)
    assert 1e-5 < _distance(fast, expected) < max(limit, 0.01)


def test_its_steps_are_of_bf16() -> None:
    torch.manual_seed(0)
    net, x = _Net().eval(), torch.randn(4, 3, 12, 12)
    with torch.no_grad(), cpuaccel.fastmath():
        optimized = cpuaccel.optimize(net, (x,), time_budget=0)
        (plan, *_) = cpuaccel.explain(optimized, (x,)).plans
    layers = [step for step in plan.steps if step.kinds.startswith(("Convolution", "MatMul"))]
    assert layers
    assert {step.dtype for step in layers} == {"bf16"}


def test_weights_may_change() -> None:
    torch.manual_seed(0)
    net, x = _Net().eval(), torch.randn(4, 3, 12, 12)
    with torch.no_grad(), cpuaccel.fastmath():
        optimized = cpuaccel.optimize(net, (x,), time_budget=0)
        before = optimized(x)
        for weight in net.parameters():
            weight.mul_(2)
        changed = optimized(x)
    with torch.no_grad():
        expected = net(x)
    assert _distance(changed, before) > 1
    assert _distance(changed, expected) < 0.01
