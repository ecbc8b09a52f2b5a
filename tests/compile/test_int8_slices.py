"""oneDNN's int8 convolutions in slices of their results give the bytes of whole ones."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import cpuaccel
from compile import _int8_models
from compile._compiled import needs_onednn, needs_vnni
from compile._slices import SLICED, WHOLE, slices_of, teams_of
from cpuaccel import _native

pytestmark = [needs_onednn, needs_vnni, pytest.mark.usefixtures("tuning_cache_file")]

ONEDNN = 1
"""The number of oneDNN in csrc/base/counters.h."""
IMAGE = (1, 8, 11, 13)
# Each slice has few pixels: with AMX oneDNN uses another implementation for one of two larger ones.
NARROW = (1, 8, 11, 5)


class Net(nn.Module):
    """A given convolution, and the sum of its result and input if sizes are equal."""

    def __init__(self, conv: nn.Module, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.conv = conv
        self.adds = conv(torch.zeros(sizes)).shape == sizes

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.conv(x)) if not self.adds else self.conv(x)
        return torch.relu(x + y) if self.adds else y


CONVOLUTIONS = {
    "padded": (lambda: nn.Conv2d(8, 16, 3, padding=1), IMAGE),
    "no padding": (lambda: nn.Conv2d(8, 16, 3), IMAGE),
    "strides": (lambda: nn.Conv2d(8, 16, 3, 2, 1), IMAGE),
    "holes": (lambda: nn.Conv2d(8, 16, 3, padding=2, dilation=2), IMAGE),
    "uneven": (lambda: nn.Conv2d(8, 16, (5, 1), padding=(4, 0)), IMAGE),
    "last rows unread": (lambda: nn.Conv2d(8, 16, 2, 3), IMAGE),
    "groups": (lambda: nn.Conv2d(32, 32, 3, padding=1, groups=2, bias=False), (1, 32, 9, 9)),
    "pixels": (lambda: nn.Conv2d(8, 24, 1), NARROW),
    "pixels and sum": (lambda: nn.Conv2d(8, 8, 1), NARROW),
    "rows and sum": (lambda: nn.Conv2d(8, 8, 3, padding=1), IMAGE),
    "images": (lambda: nn.Conv2d(8, 16, 3, 2, 1), (5, *IMAGE[1:])),
    "images and sum": (lambda: nn.Conv2d(8, 8, 1), (3, *IMAGE[1:])),
}


def _with(rank: int) -> None:
    """Set oneDNN with that implementation as fastest; plans are made anew."""
    native = _native.load()
    known = {
        name: ONEDNN if name.startswith("provider ") else rank for name in native.tuning_results()
    }
    native.set_tuning_results(known)
    native.clear_caches()


def _optimized(name: str, threads: int) -> tuple[nn.Module, nn.Module, Tensor]:
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    make, sizes = CONVOLUTIONS[name]
    x = torch.randn(*sizes)
    model = _int8_models.static(Net(make(), sizes).eval(), x)
    optimized = cpuaccel.optimize(model, (x,), time_budget=0)
    return model, optimized, x


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("threads", [2, 3])
def test_slices_give_the_bytes_of_a_whole_layer(name: str, threads: int) -> None:
    model, optimized, x = _optimized(name, threads)
    expected = model(x)
    for rank, slices in ((SLICED, threads), (WHOLE, 1)):
        _with(rank)
        assert torch.equal(optimized(x), expected)
        assert slices_of(optimized, x, "q_conv") == [slices]


def test_slices_run_in_one_team() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(2)
    x = torch.randn(*IMAGE)
    chain = nn.Sequential(*(nn.Conv2d(8, 8, 3, padding=1) for _ in range(4)))
    model = _int8_models.static(chain.eval(), x)
    optimized = cpuaccel.optimize(model, (x,), time_budget=0)
    teams = {}
    for rank in (SLICED, WHOLE):
        _with(rank)
        teams[rank] = teams_of(optimized, x)
    assert teams == {SLICED: 1, WHOLE: 0}


def test_timed_problems_have_their_slices_in_the_key() -> None:
    _optimized("padded", 2)
    known = [name for name in _native.load().tuning_results() if name.startswith("conv ")]
    assert known
    assert all(name.endswith(" slices") for name in known)
