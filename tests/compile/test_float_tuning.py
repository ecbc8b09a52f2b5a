"""Tuning of float layers: timed once, cached, and the same results whichever kernel is chosen."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cpuaccel
from compile import _bf16
from compile._compiled import Lambda, needs_onednn
from cpuaccel import _native, config

pytestmark = [needs_onednn, pytest.mark.usefixtures("tuning_cache_file", "bf16_if_asked")]

_LARGEST = 127
"""The largest result that a tuning cache file may contain."""


class Net(nn.Module):
    """Convolutions and a linear layer, each with the function as post-op."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.stem = nn.Conv2d(3, 32, 3, 2, 1)
        self.depthwise = nn.Conv2d(32, 32, 5, 1, 2, groups=32)
        self.pointwise = nn.Conv2d(32, 64, 1)
        self.first = nn.Linear(64, 128)
        self.last = nn.Linear(128, 16)

    def forward(self, x: Tensor) -> Tensor:
        for layer in (self.stem, self.depthwise, self.pointwise):
            x = self.function(layer(x))
        rows = x.permute(0, 2, 3, 1).reshape(-1, 64)
        return self.last(self.function(self.first(rows)))


def _tanh_gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


FUNCTIONS = pytest.mark.parametrize("function", [F.silu, F.gelu, _tanh_gelu, F.relu])
TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


def test_in_a_process_of_its_own() -> None:
    _bf16.in_a_process_of_its_own(__file__)


def _model(function: Callable[[Tensor], Tensor], dtype: torch.dtype) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return Net(function).eval().to(dtype), torch.randn(2, 3, 33, 31).to(dtype)


def _kernels(model: nn.Module, x: Tensor) -> list[str]:
    """The kernels of the layers."""
    text = str(cpuaccel.explain(model, (x,)))
    return re.findall(r"^(?:Convolution|MatMul)\S* +(\S+ \S+)", text, flags=re.MULTILINE)


def _is_exact(found: Tensor, model: nn.Module, x: Tensor) -> None:
    exact = copy.deepcopy(model).double()(x.double())
    tolerance = 2e-5 if found.dtype == torch.float32 else 3e-2
    torch.testing.assert_close(found.double(), exact, atol=tolerance, rtol=tolerance)


def _set_rank(rank: int, problems: str = "") -> None:
    """Set the tuning result of `problems` to `rank` and of others to 0; plans are made anew."""
    native = _native.load()
    known = native.tuning_results()
    native.set_tuning_results({each: rank if each.startswith(problems) else 0 for each in known})
    native.clear_caches()


def _timed(model: nn.Module, x: Tensor) -> nn.Module:
    """Optimize with tuning among oneDNN's kernels: on AMX cpuaccel might win some products."""
    optimized = cpuaccel.optimize(model, (x,))
    optimized(x)
    _set_rank(0)
    optimized(x)
    return optimized


@FUNCTIONS
@TYPES
def test_every_way_computes_the_same(
    function: Callable[[Tensor], Tensor], dtype: torch.dtype
) -> None:
    model, x = _model(function, dtype)
    with torch.no_grad():
        optimized = _timed(model, x)
        problems = [each for each in _native.load().tuning_results() if each.startswith("float ")]
        # The product alone is timed too if a slow function follows it.
        assert len(problems) == 3 + (function is not F.relu)
        for rank in (*range(6), _LARGEST):
            _set_rank(rank, "float ")
            _is_exact(optimized(x), model, x)


@TYPES
def test_a_post_op_by_a_cpuaccel_kernel(dtype: torch.dtype) -> None:
    model, x = _model(F.silu, dtype)
    with torch.no_grad():
        optimized = _timed(model, x)
        for rank, behind in ((0, 0), (1, 4)):
            _set_rank(rank, "float ")
            names = _kernels(optimized, x)
            assert sum("+eltwise" in name for name in names) == behind, names


def test_a_tuning_cache_entry_of_another_post_op_is_ignored() -> None:
    model, x = _model(F.relu, torch.float32)
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,))
        optimized(x)
        _set_rank(1)
        assert not any("+eltwise" in name for name in _kernels(optimized, x))


def test_nothing_is_timed_where_all_is_to_be_the_same() -> None:
    model, x = _model(F.silu, torch.float32)
    config.set("deterministic", True)
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,))
        _is_exact(optimized(x), model, x)
    assert not _native.load().tuning_results()


def test_two_threads() -> None:
    torch.set_num_threads(2)
    model, x = _model(F.gelu, torch.float32)
    with torch.no_grad():
        _is_exact(cpuaccel.optimize(model, (x,))(x), model, x)
    problems = [each for each in _native.load().tuning_results() if each.startswith("float ")]
    assert problems
    assert all("t2 " in each for each in problems)


def test_implementations_are_different_ones() -> None:
    """oneDNN lists an implementation twice if its primitive is cached."""
    model, x = _model(F.silu, torch.float32)
    native = _native.load()
    messages: list[str] = []
    with torch.no_grad():
        cpuaccel.optimize(model, (x,))(x)
        native.set_tuning_results({})
        native.clear_caches()
        native.set_log_sink(messages.append)
        try:
            cpuaccel.optimize(copy.deepcopy(model), (x,))(x)
        finally:
            native.set_log_sink(None)
    timed = [each for each in messages if "timed float" in each]
    assert timed
    for message in timed:
        names = re.findall(
            r"(?:: |, )(\S+(?: and cpuaccel post-op)?(?: in slices)?) (?:[\d.]+ us|differs)",
            message,
        )
        assert len(names) == len(set(names)) > 1, message


class Gate(nn.Module):
    """Squeeze-and-excite: channels times gates of their means."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.before = nn.Conv2d(3, 24, 3)
        self.fewer = nn.Conv2d(24, 8, 1)
        self.gates = nn.Conv2d(8, 24, 1)
        self.after = nn.Conv2d(24, 16, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.before(x))
        means = F.adaptive_avg_pool2d(x, 1)
        x = x * self.function(self.gates(F.relu(self.fewer(means))))
        result: Tensor = self.after(x)
        return result


@TYPES
@pytest.mark.parametrize("function", [torch.sigmoid, F.hardsigmoid])
@pytest.mark.parametrize("batch", [1, 3])
def test_gates(dtype: torch.dtype, function: Callable[[Tensor], Tensor], batch: int) -> None:
    torch.manual_seed(0)
    model, x = Gate(function).eval().to(dtype), torch.randn(batch, 3, 17, 15).to(dtype)
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        _is_exact(optimized(x), model, x)
        text = str(cpuaccel.explain(optimized, (x,)))
    assert re.search(r"^Multiply +cpuaccel +\d+x24x15x13 ", text, flags=re.MULTILINE), text
    assert re.search(r"^Convolution\+(Hard)?Sigmoid +onednn ", text, flags=re.MULTILINE), text


def test_a_padded_convolution_is_not_a_gate() -> None:
    torch.manual_seed(0)
    model = Lambda(
        lambda self, x: self.padded(x.mean((2, 3), keepdim=True)) * x,
        padded=nn.Conv2d(8, 8, 1, padding=1),
    ).eval()
    x = torch.randn(2, 8, 3, 3)
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        assert optimized.verdict is not None
        assert optimized.verdict.runs == "plan", optimized.verdict
        _is_exact(optimized(x), model, x)


@TYPES
@pytest.mark.parametrize("channels", [2, 3, 4, 5])
def test_images_become_pixels(dtype: torch.dtype, channels: int) -> None:
    torch.manual_seed(0)
    model: Any = nn.Sequential(nn.Conv2d(channels, 16, 3), nn.ReLU(), nn.Conv2d(16, 8, 1))
    model, x = model.eval().to(dtype), torch.randn(2, channels, 19, 23).to(dtype)
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        _is_exact(optimized(x), model, x)
        text = str(cpuaccel.explain(optimized, (x,)))
    kernels = re.findall(r"^copy +(\S+)", text, flags=re.MULTILINE)
    assert kernels[0] == ("cpuaccel" if channels <= 4 else "onednn"), text
