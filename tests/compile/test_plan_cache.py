"""Other sizes and constants after compilation; memory use does not grow."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from _settings import setting
from quant._engine import needs_torch_ao
from torch import Tensor, nn

import cpuaccel
from compile._compiled import Lambda, convolutions, needs_onednn
from cpuaccel.compile.common import report

pytestmark = needs_onednn

_SIDES = range(40, 80, 2)


def _resident_mib() -> float:
    gc.collect()
    cpuaccel.memory.empty_cache()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def _grows_by(model: Any) -> float:
    """Call with all sizes three times; return the MiB by which memory grows after the first."""
    with torch.no_grad():
        before = 0.0
        for turn in range(3):
            for side in _SIDES:
                model(torch.randn(1, 3, side, side))
            if turn == 0:
                before = _resident_mib()
    return _resident_mib() - before


def test_twenty_sizes_in_turn_do_not_grow_memory() -> None:
    torch._dynamo.reset()
    cpuaccel.clear_caches()
    cpuaccel.reset_stats()
    report.clear()
    compiled = torch.compile(convolutions(), backend="cpuaccel", dynamic=True)
    assert _grows_by(compiled) < 16
    # Once more where torch's own choice of a convolution changes, at 20480 elements per image.
    assert len(report.reports()) <= 2
    cache = cpuaccel.stats()["graph_cache"]
    assert cache["size"] == len(_SIDES)
    assert cache["evictions"] == 0


def test_nor_do_they_where_the_cache_is_smaller() -> None:
    torch._dynamo.reset()
    cpuaccel.clear_caches()
    with setting("graph_cache_capacity", 4):
        compiled = torch.compile(convolutions(), backend="cpuaccel", dynamic=True)
        assert _grows_by(compiled) < 16
        assert cpuaccel.stats()["graph_cache"]["size"] == 4


def test_cached_sizes_in_eager_mode_are_bounded() -> None:
    cpuaccel.clear_caches()
    optimized = cpuaccel.optimize(convolutions(), (torch.randn(1, 3, 40, 40),))
    assert _grows_by(optimized) < 16
    assert len(optimized.reports) == 2


# Constants that change after compiling


class _Scaled(nn.Module):
    """A model with constants that are not parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.plain = torch.randn(8)
        self.register_buffer("held", torch.randn(8, 8))
        self.number = 2.0

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.linear(x) * self.plain, self.held) * self.number


def _set_plain(model: Any) -> None:
    model.plain = torch.randn(8)


def _set_held(model: Any) -> None:
    model.held = torch.randn(8, 8)


def _set_number(model: Any) -> None:
    model.number = 3.0


def _set_layer(model: Any) -> None:
    model.linear = nn.Linear(8, 8)


CHANGES: dict[str, Any] = {
    "a plain tensor, in place": lambda model: model.plain.mul_(2),
    "a plain tensor, replaced": _set_plain,
    "a buffer, in place": lambda model: model.held.add_(1),
    "a buffer, through .data": lambda model: model.held.data.mul_(3),
    "a buffer, replaced": _set_held,
    "a number": _set_number,
    "a layer": _set_layer,
    "a dtype and back": lambda model: model.bfloat16().float(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("how", ["compiled", "optimized"])
def test_a_constant_that_changes_is_followed(change: Any, how: str) -> None:
    torch.manual_seed(0)
    model, x = _Scaled().eval(), torch.randn(3, 8)
    with torch.no_grad():
        torch._dynamo.reset()
        ours: Any = (
            torch.compile(model, backend="cpuaccel")
            if how == "compiled"
            else cpuaccel.optimize(model, (x,))
        )
        torch.testing.assert_close(ours(x), model(x), atol=1e-5, rtol=1e-4)
        change(model)
        for _ in range(2):
            torch.testing.assert_close(ours(x), model(x), atol=1e-5, rtol=1e-4)


# Optimized models: the same tests as of compiled ones in test_bad_input.py


def _optimized_agrees(of: Any, *inputs: Tensor, **layers: nn.Module) -> None:
    torch.manual_seed(0)
    model = Lambda(of, **layers).eval()
    optimized = cpuaccel.optimize(model, tuple(each.clone() for each in inputs))
    with torch.no_grad():
        for _ in range(2):
            mine, theirs = ([each.clone() for each in inputs] for _ in range(2))
            found, expected = optimized(*mine), model(*theirs)
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(mine, theirs)


def _conv() -> nn.Conv2d:
    return nn.Conv2d(8, 8, 3, padding=1)


@pytest.mark.parametrize(
    "of",
    [
        lambda self, x: self.b(torch.cumsum(self.a(x), 2)),
        lambda self, x: self.a(x) + self.a(x.add_(1)),
        lambda self, x: F.relu(self.a(x), inplace=True).mul_(2),
        lambda self, x: (x, self.a(x), x.flatten(1)),
        lambda self, x: (lambda y: (y, y.flatten(1), y[:, :4], y))(F.relu(self.a(x))),
        lambda self, x: self.b(self.a(x)[x[:, 0, 0, 0] > 0]),
        lambda self, x: torch.view_as_real(torch.view_as_complex(self.a(x).view(-1, 2)) * 1j),
        pytest.param(
            lambda self, x: self.a(torch.quantize_per_tensor(x, 0.1, 3, torch.quint8).dequantize()),
            marks=needs_torch_ao,
        ),
        lambda self, x: self.a(x[:0]),
    ],
)
def test_optimized_models_agree(of: Any) -> None:
    _optimized_agrees(of, torch.randn(4, 8, 9, 9), a=_conv(), b=_conv())


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64])
def test_optimized_models_of_other_types(dtype: torch.dtype) -> None:
    layer = nn.Linear(8, 8).to(dtype)
    _optimized_agrees(lambda self, x: self.a(x), torch.randn(3, 8, dtype=dtype), a=layer)
