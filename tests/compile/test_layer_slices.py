"""Float convolutions in slices of their results, with one primitive and one thread for each."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cpuaccel
from compile import _bf16
from compile._compiled import Lambda, needs_onednn
from compile._slices import SLICED, WHOLE, slices_of, teams_of
from compile.test_float_tuning import _is_exact, _set_rank

pytestmark = [needs_onednn, pytest.mark.usefixtures("tuning_cache_file", "bf16_if_asked")]

SLICED_AND_FUNCTION_BEHIND = SLICED + 1
KIND = "Convolution"
TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


def test_in_a_process_of_its_own() -> None:
    _bf16.in_a_process_of_its_own(__file__)


def _chain(*layers: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*layers).eval()


def _residual(of: nn.Module) -> nn.Module:
    """A sum that overwrites its second term."""
    torch.manual_seed(0)
    first = nn.Conv2d(8, 16, 1)
    return Lambda(
        lambda self, x: F.relu(self.of(y := self.first(x)) + y), first=first, of=of
    ).eval()


def _channels() -> nn.Module:
    """A factor for each channel, which all slices read."""
    torch.manual_seed(0)
    return Lambda(
        lambda self, x: F.relu(self.conv(x)) * self.factor.weight,
        conv=nn.Conv2d(8, 16, 3),
        factor=nn.ParameterDict({"weight": torch.rand(1, 16, 1, 1)}),
    ).eval()


IMAGE = (1, 8, 11, 13)
NETS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "padded": (lambda: _chain(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU()), IMAGE),
    "no padding": (lambda: _chain(nn.Conv2d(8, 16, 3)), IMAGE),
    "strides": (lambda: _chain(nn.Conv2d(8, 16, 3, 2, 1), nn.Conv2d(16, 8, 1, 2)), IMAGE),
    "holes": (lambda: _chain(nn.Conv2d(8, 16, 3, padding=2, dilation=2), nn.SiLU()), IMAGE),
    "uneven": (lambda: _chain(nn.Conv2d(8, 16, (5, 1), padding=(4, 0))), IMAGE),
    "last rows unread": (lambda: _chain(nn.Conv2d(8, 16, 2, 3)), IMAGE),
    "groups": (lambda: _chain(nn.Conv2d(8, 16, 3, padding=1, groups=2), nn.ReLU6()), IMAGE),
    "depthwise": (lambda: _chain(nn.Conv2d(8, 8, 5, padding=2, groups=8), nn.Hardswish()), IMAGE),
    "pixels": (lambda: _chain(nn.Conv2d(8, 24, 1), nn.GELU()), IMAGE),
    "images": (lambda: _chain(nn.Conv2d(8, 16, 3, 2, 1), nn.SiLU()), (5, *IMAGE[1:])),
    "pixels of images": (lambda: _chain(nn.Conv2d(8, 16, 1)), (3, *IMAGE[1:])),
    "sequence": (lambda: _chain(nn.Conv1d(8, 16, 3, padding=1), nn.ReLU()), (1, 8, 29)),
    "volume": (lambda: _chain(nn.Conv3d(4, 8, 3, padding=1), nn.ReLU()), (1, 4, 5, 6, 7)),
    "sum": (lambda: _residual(nn.Conv2d(16, 16, 3, padding=1)), IMAGE),
    "sum of pixels": (lambda: _residual(nn.Conv2d(16, 16, 1)), IMAGE),
    "sum of images": (lambda: _residual(nn.Conv2d(16, 16, 3, padding=1)), (4, *IMAGE[1:])),
    "factors": (_channels, IMAGE),
}


def _optimized(model: nn.Module, x: Tensor, rank: int) -> nn.Module:
    optimized = cpuaccel.optimize(model, (x,), time_budget=0)
    optimized(x)
    _set_rank(rank)
    return optimized


@pytest.mark.parametrize(
    ("name", "threads"),
    [*((name, 2) for name in NETS), *((name, 3) for name in ("padded", "pixels", "images"))],
)
@TYPES
def test_slices_compute_the_same(name: str, threads: int, dtype: torch.dtype) -> None:
    torch.set_num_threads(threads)
    make, sizes = NETS[name]
    model = make().to(dtype)
    x = torch.randn(*sizes).to(dtype)
    with torch.no_grad():
        for rank in (SLICED, SLICED_AND_FUNCTION_BEHIND):
            optimized = _optimized(model, x, rank)
            _is_exact(optimized(x), model, x)
            slices = slices_of(optimized, x, KIND)
            assert slices
            assert set(slices) == {threads}


@pytest.mark.parametrize("sizes", [(2, 8, 9, 9), (1, 8, 4, 9)])
def test_too_few_to_cut(sizes: tuple[int, ...]) -> None:
    """Fewer images than threads, but more than one; fewer rows than threads."""
    torch.set_num_threads(3)
    model, x = _chain(nn.Conv2d(8, 16, 3)), torch.randn(*sizes)
    with torch.no_grad():
        optimized = _optimized(model, x, SLICED)
        _is_exact(optimized(x), model, x)
        assert slices_of(optimized, x, KIND) == [1]


def test_one_thread_has_no_slices() -> None:
    torch.set_num_threads(1)
    model, x = _chain(nn.Conv2d(8, 16, 3)), torch.randn(*IMAGE)
    with torch.no_grad():
        assert slices_of(_optimized(model, x, SLICED), x, KIND) == [1]


def test_another_number_of_threads_later() -> None:
    torch.set_num_threads(2)
    model, x = NETS["padded"][0](), torch.randn(*IMAGE)
    with torch.no_grad():
        optimized = _optimized(model, x, SLICED)
        for threads in (2, 1, 4):
            torch.set_num_threads(threads)
            _is_exact(optimized(x), model, x)


def test_slices_run_in_one_team() -> None:
    torch.set_num_threads(2)
    model = _chain(*(nn.Conv2d(8, 8, 3, padding=1) for _ in range(4)))
    x = torch.randn(*IMAGE).contiguous(memory_format=torch.channels_last)
    teams = {}
    with torch.no_grad():
        for rank in (SLICED, WHOLE):
            teams[rank] = teams_of(_optimized(model, x, rank), x)
    assert teams == {SLICED: 1, WHOLE: 0}
