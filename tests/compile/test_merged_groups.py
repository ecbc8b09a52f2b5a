"""bf16 convolutions with narrow groups, several of which are multiplied as one."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import cpuaccel
from compile import _bf16
from compile._compiled import needs_onednn
from compile.test_float_tuning import _set_rank
from cpuaccel import _native

pytestmark = [needs_onednn, pytest.mark.usefixtures("tuning_cache_file", "bf16")]

CHANNELS, GROUPS = 48, 12


def test_in_a_process_of_its_own() -> None:
    _bf16.in_a_process_of_its_own(__file__)


def _problems() -> list[str]:
    return [each for each in _native.load().tuning_results() if each.startswith("groups ")]


def _exact(model: nn.Module, x: Tensor) -> Tensor:
    result: Tensor = copy.deepcopy(model).double()(x.double())
    return result


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        (3, {"padding": 1}),
        (3, {"stride": 2}),
        ((1, 5), {"dilation": (1, 2), "padding": (0, 4)}),
        (1, {}),
    ],
)
def test_any_number_of_groups_at_once(
    kernel: int | tuple[int, int],
    options: dict[str, int | tuple[int, int]],
    bias: bool,
    channels_last: bool,
) -> None:
    torch.manual_seed(0)
    layer = nn.Conv2d(CHANNELS, 2 * CHANNELS, kernel, groups=GROUPS, bias=bias, **options)
    model = nn.Sequential(layer, nn.ReLU()).eval().to(torch.bfloat16)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
    x = torch.randn(2, CHANNELS, 14, 13).to(torch.bfloat16)
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        optimized(x)
        assert len(_problems()) == 1
        exact = _exact(model, x)
        # 12 is a plain convolution. 5 is not a choice, but a file may contain it.
        for at_once in (1, 2, 3, 4, 6, 12, 5):
            _set_rank(at_once)
            torch.testing.assert_close(optimized(x).double(), exact, rtol=2e-2, atol=2e-2)


def test_weights_that_change() -> None:
    torch.manual_seed(0)
    model = nn.Conv2d(CHANNELS, CHANNELS, 3, groups=GROUPS).eval().to(torch.bfloat16)
    x = torch.randn(1, CHANNELS, 9, 9).to(torch.bfloat16)
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        optimized(x)
        _set_rank(4)
        optimized(x)
        model.weight.copy_(torch.randn_like(model.weight))
        torch.testing.assert_close(optimized(x).double(), _exact(model, x), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("groups", [CHANNELS, 1])
def test_depthwise_and_plain_ones_are_as_they_are(groups: int) -> None:
    model = nn.Conv2d(CHANNELS, CHANNELS, 3, groups=groups).eval().to(torch.bfloat16)
    x = torch.randn(1, CHANNELS, 9, 9).to(torch.bfloat16)
    with torch.no_grad():
        cpuaccel.optimize(model, (x,), time_budget=0)(x)
    assert not _problems()


class Block(nn.Module):
    """A ResNet block with a layer beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(64, 64, 1)
        self.second = nn.Conv2d(64, 64, 3, padding=1)
        self.third = nn.Conv2d(64, 128, 1)
        self.beside = nn.Conv2d(64, 128, 1)

    def forward(self, x: Tensor) -> Tensor:
        within = self.second(self.first(x).relu()).relu()
        return (self.third(within) + self.beside(x)).relu()


def test_blocks_are_a_step_for_each_convolution() -> None:
    """On CPUs with AMX, oneDNN Graph would make one partition of each such block."""
    torch.manual_seed(0)
    model = nn.Sequential(Block(), nn.Conv2d(128, 64, 1), Block()).eval().to(torch.bfloat16)
    x = torch.randn(1, 64, 14, 14).to(torch.bfloat16)
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        torch.testing.assert_close(optimized(x).double(), _exact(model, x), rtol=3e-2, atol=3e-2)
        steps = [
            line.split()[0]
            for line in str(cpuaccel.explain(optimized, (x,))).splitlines()
            if line.startswith("Convolution")
        ]
    assert len(steps) == 9
    assert all(step.count("Convolution") == 1 for step in steps), steps
