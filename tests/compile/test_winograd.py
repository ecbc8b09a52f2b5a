"""Large 3x3 convolutions: by family winograd, or by oneDNN, whichever is faster."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cpuaccel
from compile._compiled import Net, Net2, needs_onednn
from compile.test_float_tuning import _set_rank
from cpuaccel import _native, config

pytestmark = [needs_onednn, pytest.mark.usefixtures("tuning_cache_file")]

CHANNELS, SIDE = 64, 46
"""More than 2^26 multiply-adds a layer."""

FORWARDS: dict[str, Callable[..., Tensor]] = {
    "relu": lambda self, x: F.relu(self.first(x)),
    "silu": lambda self, x: F.silu(self.first(x)),
    "residual": lambda self, x: x + self.second(F.relu(self.first(x))),
    "itself": lambda self, x: F.relu(x + self.first(x)),
    "time": lambda self, x: self.first(x) + self.time(x.mean((2, 3)))[:, :, None, None],
    "upsampled": lambda self, x: self.first(F.interpolate(x, scale_factor=2.0)),
}


def _net(forward: Callable[..., Tensor], padding: int = 1) -> Net:
    torch.manual_seed(0)
    return Net(
        forward,
        first=nn.Conv2d(CHANNELS, CHANNELS, 3, padding=padding),
        second=nn.Conv2d(CHANNELS, CHANNELS, 3, padding=padding, bias=False),
        time=nn.Linear(CHANNELS, CHANNELS),
    ).eval()


def _image(batch: int = 1, side: int = SIDE) -> Tensor:
    return torch.randn(batch, CHANNELS, side, side, generator=torch.Generator().manual_seed(1))


def _kernels(optimized: nn.Module, x: Tensor) -> set[str]:
    return set(re.findall(r"winograd:\w+:(\d)x\d", str(cpuaccel.explain(optimized, (x,)))))


def _is_exact(found: Tensor, model: nn.Module, x: Tensor) -> None:
    exact = copy.deepcopy(model).double()(x.double())
    torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("name", FORWARDS)
def test_every_way_computes_the_same(name: str, layout: torch.memory_format) -> None:
    model, x = _net(FORWARDS[name]), _image(2).to(memory_format=layout)
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        optimized(x)
        assert any(each.startswith("winograd ") for each in _native.load().tuning_results())
        for rank in (2, 4, 0):
            _set_rank(rank, "winograd ")
            _is_exact(optimized(x), model, x)
            assert _kernels(optimized, x) == ({str(rank)} if rank else set())


@pytest.mark.parametrize("padding", [0, 2])
def test_other_paddings(padding: int) -> None:
    model, x = _net(FORWARDS["relu"], padding), _image(1, SIDE + 2)
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        optimized(x)
        for rank in (2, 4):
            _set_rank(rank, "winograd ")
            _is_exact(optimized(x), model, x)
            assert _kernels(optimized, x) == {str(rank)}


def test_an_addend_that_a_later_step_reads() -> None:
    model = Net2(
        lambda self, x, y: (x + y.relu() + self.first(y)) * y,
        first=nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1),
    ).eval()
    x, y = _image(), _image().flip(3)
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x, y), time_budget=0)
        optimized(x, y)
        _set_rank(4, "winograd ")
        exact = copy.deepcopy(model).double()(x.double(), y.double())
        torch.testing.assert_close(optimized(x, y).double(), exact, rtol=1e-4, atol=1e-4)


def test_weights_that_change() -> None:
    model, x = _net(FORWARDS["residual"]), _image()
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        optimized(x)
        _set_rank(2, "winograd ")
        optimized(x)
        model.first.weight.mul_(-0.5)
        _is_exact(optimized(x), model, x)


def test_threads_give_the_same_bits() -> None:
    model, x = _net(FORWARDS["residual"]), _image()
    before = torch.get_num_threads()
    found = []
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        try:
            for threads in (1, 2):
                torch.set_num_threads(threads)
                optimized(x)
                _set_rank(4, "winograd ")
                found.append(optimized(x))
                assert _kernels(optimized, x) == {"4"}
        finally:
            torch.set_num_threads(before)
    assert torch.equal(*found)


@pytest.mark.parametrize(
    ("layer", "side"),
    [
        (nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1), 8),  # too small
        (nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, stride=2), 2 * SIDE),
        (nn.Conv2d(CHANNELS, CHANNELS, 3, padding=2, dilation=2), SIDE),
        (nn.Conv2d(CHANNELS, 8 * CHANNELS, 3, padding=1, groups=2), SIDE),
        (nn.Conv2d(CHANNELS, CHANNELS, 5, padding=2), SIDE),
    ],
)
def test_layers_that_stay_onednn_s(layer: nn.Module, side: int) -> None:
    model, x = Net(lambda self, x: F.relu(self.layer(x)), layer=layer).eval(), _image(1, side)
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        _is_exact(optimized(x), model, x)
    assert not any(each.startswith("winograd ") for each in _native.load().tuning_results())


def test_without_tuning() -> None:
    model, x = _net(FORWARDS["relu"]), _image()
    config.set("deterministic", True)
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,))
        _is_exact(optimized(x), model, x)
        assert _kernels(optimized, x) == set()
