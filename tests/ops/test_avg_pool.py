"""Averages of quantized images: exactly the float64 definition.

    steps = (sum x_q - pixels * zp) / divisor
    y_q = clamp(round_half_even(steps + zp), 0, 255)     adaptive_avg_pool2d, mean up to torch 2.13
    y_q = clamp(round_half_even(steps) + zp, 0, 255)     avg_pool2d, and from 2.14 on all

torch's own kernels round halves this way too. Where they multiply by a float reciprocal or sum
floats, they may round a half to either side. All other results are equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from _strategies import Values
from _torch_version import ZERO_POINT_AFTER_ROUNDING
from hypothesis import given
from hypothesis import strategies as st
from quant._engine import counted, engine, needs_front_end
from torch import Tensor

from ops._compare import (
    LAYOUTS,
    Outcome,
    assert_fallback,
    assert_like,
    assert_on_cpuaccel,
    assert_same,
    both,
    image,
    images,
    isas,
    same_error,
    torch_misplaces,
)

pytestmark = needs_front_end


def _assert_exact(
    outcome: Outcome,
    x: Tensor,
    sums: Tensor,
    divisors: Tensor,
    *,
    even_steps: bool = ZERO_POINT_AFTER_ROUNDING,
) -> None:
    """`sums` exclude the zero points; float64 divides them exactly if the result is a half."""
    zero_point = x.q_zero_point()
    steps = sums / divisors
    rounded = torch.round(steps) + zero_point if even_steps else torch.round(steps + zero_point)
    assert torch.equal(outcome.ours.int_repr(), rounded.clamp(0, 255).to(torch.uint8))
    assert_like(outcome.ours, outcome.theirs)
    if torch_misplaces(x, outcome.theirs):
        return
    off = (outcome.ours.int_repr().int() - outcome.theirs.int_repr().int()).abs()
    half = (steps - steps.floor()) == 0.5
    assert int(off.max()) <= 1
    assert not bool((off.bool() & ~half).any())


def _centered(x: Tensor) -> Tensor:
    return x.int_repr().to(torch.float64) - x.q_zero_point()


def _ranges(size: int, count: int) -> list[tuple[int, int]]:
    return [(i * size // count, math.ceil((i + 1) * size / count)) for i in range(count)]


def _adaptive(x: Tensor, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    values = _centered(x)
    rows, columns = _ranges(x.size(2), size[0]), _ranges(x.size(3), size[1])
    sums = torch.empty(*x.shape[:2], *size, dtype=torch.float64)
    divisors = torch.empty(size, dtype=torch.float64)
    for i, (top, bottom) in enumerate(rows):
        for j, (left, right) in enumerate(columns):
            sums[:, :, i, j] = values[:, :, top:bottom, left:right].sum((2, 3))
            divisors[i, j] = (bottom - top) * (right - left)
    return sums, divisors


sizes = st.tuples(st.integers(1, 6), st.integers(1, 6))


@isas
@given(x=images(("channels_last",)), size=sizes)
def test_adaptive(isa: str, x: Tensor, size: tuple[int, int]) -> None:
    outcome = both(lambda: F.adaptive_avg_pool2d(x, size), isa)
    _assert_exact(outcome, x, *_adaptive(x, size))
    assert_on_cpuaccel(outcome.counts, "adaptive_avg_pool2d")


@isas
@given(x=images(("channels_last",)), keepdim=st.booleans(), dim=st.permutations((2, 3)))
def test_mean(isa: str, x: Tensor, keepdim: bool, dim: list[int]) -> None:
    outcome = both(lambda: x.mean(dim, keepdim), isa)
    sums = _centered(x).sum((2, 3), keepdim)
    _assert_exact(outcome, x, sums, torch.tensor(float(x.size(2) * x.size(3))))
    assert_on_cpuaccel(outcome.counts, "mean")


@dataclass(frozen=True)
class Window:
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    ceil_mode: bool
    count_include_pad: bool
    divisor: int | None

    def pool(self, x: Tensor, *, divisor: int | None = None) -> Tensor:
        return F.avg_pool2d(
            x,
            self.kernel,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            divisor or self.divisor,
        )

    def divisors(self, shape: torch.Size) -> Tensor:
        """The divisors, counted independently of the pooling under test."""
        if self.divisor:
            return torch.tensor(float(self.divisor))
        ones = torch.ones(1, 1, *shape[2:], dtype=torch.float64)
        if self.count_include_pad:
            top, left = self.padding
            ones = F.pad(ones, (left, left, top, top), value=1.0)
            unpadded = Window(self.kernel, self.stride, (0, 0), self.ceil_mode, False, 1)
            padded = Window(self.kernel, self.stride, self.padding, self.ceil_mode, False, 1)
            size = padded.pool(torch.zeros(1, 1, *shape[2:])).shape[2:]
            return unpadded.pool(ones)[:, :, : size[0], : size[1]]
        return self.pool(ones, divisor=1)


@st.composite
def windows(draw: st.DrawFn) -> Window:
    def pair(low: int, high: int) -> tuple[int, int]:
        return draw(st.integers(low, high)), draw(st.integers(low, high))

    kernel = pair(1, 5)
    return Window(
        kernel=kernel,
        stride=pair(1, 3),
        padding=(draw(st.integers(0, kernel[0] // 2)), draw(st.integers(0, kernel[1] // 2))),
        ceil_mode=draw(st.booleans()),
        count_include_pad=draw(st.booleans()),
        divisor=draw(st.one_of(st.none(), st.sampled_from((1, 2, 3, 7, 30, 1000, -4)))),
    )


def _fits(x: Tensor, window: Window) -> bool:
    more = [s - 1 if window.ceil_mode else 0 for s in window.stride]
    sizes_ = zip(x.shape[2:], window.padding, window.kernel, more, strict=True)
    return all(size + 2 * padding - kernel + up >= 0 for size, padding, kernel, up in sizes_)


@isas
@given(x=images(("channels_last",)), window=windows())
def test_windows(isa: str, x: Tensor, window: Window) -> None:
    if not _fits(x, window):
        return
    outcome = both(lambda: window.pool(x), isa)
    sums = window.pool(_centered(x), divisor=1)
    _assert_exact(outcome, x, sums, window.divisors(x.shape), even_steps=True)
    assert_on_cpuaccel(outcome.counts, "avg_pool2d")


@given(x=images(LAYOUTS), window=windows())
def test_any_layout_looks_as_torch_has_it(x: Tensor, window: Window) -> None:
    if _fits(x, window):
        outcome = both(lambda: window.pool(x))
        assert_like(outcome.ours, outcome.theirs)


@given(x=images(LAYOUTS), size=sizes, keepdim=st.booleans())
def test_any_layout_of_a_mean(x: Tensor, size: tuple[int, int], keepdim: bool) -> None:
    outcome = both(lambda: F.adaptive_avg_pool2d(x, size))
    assert_like(outcome.ours, outcome.theirs)
    outcome = both(lambda: x.mean((2, 3), keepdim))
    assert_like(outcome.ours, outcome.theirs)


@pytest.mark.parametrize("shape", [(1, 1280, 7, 7), (2, 96, 56, 56), (1, 33, 112, 112)])
def test_sizes_of_real_networks(shape: tuple[int, ...]) -> None:
    x = image(*shape)
    sums = _centered(x).sum((2, 3), keepdim=True)
    divisor = torch.tensor(float(shape[2] * shape[3]))
    _assert_exact(both(lambda: F.adaptive_avg_pool2d(x, 1)), x, sums, divisor)
    _assert_exact(both(lambda: x.mean((2, 3), True)), x, sums, divisor)


@pytest.mark.parametrize("size", [2, 7, 8, 14, 28])
@pytest.mark.parametrize("zero_point", [0, 1, 128])
def test_halves_fall_as_in_torch(size: int, zero_point: int) -> None:
    x = Values(x_zero_point=zero_point, wide=True).activation((2, 64, size, size), "channels_last")
    outcome = both(lambda: F.adaptive_avg_pool2d(x, 1))
    assert_same(outcome.ours, outcome.theirs)
    outcome = both(lambda: F.avg_pool2d(x, 2))
    assert_same(outcome.ours, outcome.theirs)


def test_threads_agree() -> None:
    x = image(3, 300, 40, 41)
    for op in (lambda: F.avg_pool2d(x, 3, 1, 1), lambda: F.adaptive_avg_pool2d(x, 1)):
        torch.set_num_threads(1)
        one = both(op).ours
        torch.set_num_threads(4)
        assert_same(both(op).ours, one)


def test_saturation() -> None:
    x = image(1, 40, 6, 6)
    outcome = both(lambda: F.avg_pool2d(x, 3, divisor_override=1))
    assert set(outcome.ours.int_repr().unique().tolist()) == {255}
    assert_same(outcome.ours, outcome.theirs)


FALLBACKS = {
    "contiguous": (lambda x: F.avg_pool2d(x.contiguous(), 2), "input is not channels_last"),
    "unbatched": (lambda x: F.avg_pool2d(x[0].contiguous(), 2), "input is not channels_last"),
    "adaptive": (
        lambda x: F.adaptive_avg_pool2d(x.contiguous(), 1),
        "input is not channels_last",
    ),
    "one dimension": (lambda x: x.mean([3]), "not the mean over height and width"),
    "channels": (lambda x: x.mean([1]), "not the mean over height and width"),
    "everything": (lambda x: x.mean([]), "not the mean over height and width"),
    "divisor": (
        lambda x: F.avg_pool2d(x, 2, divisor_override=40000),
        "a window of 32768 or more pixels",
    ),
}


@pytest.mark.parametrize("name", FALLBACKS)
def test_unsupported_calls_fall_back(name: str) -> None:
    op, reason = FALLBACKS[name]
    x = image(1, 8, 6, 6)
    with counted() as counts, engine("x86"):
        ours = op(x)
    assert {key.rpartition(": ")[2] for key in counts.fallbacks} == {reason}
    assert_same(ours, both(lambda: op(x)).theirs)


def test_a_large_image_falls_back() -> None:
    x = image(1, 8, 200, 200)
    outcome = both(lambda: F.adaptive_avg_pool2d(x, 1))
    assert_same(outcome.ours, outcome.theirs)
    assert_fallback(outcome.counts, "a window of 32768 or more pixels")


def test_qint8_falls_back() -> None:
    x = torch.quantize_per_tensor(torch.randn(1, 8, 6, 6), 0.1, 0, torch.qint8)
    outcome = both(lambda: F.adaptive_avg_pool2d(x, 1))
    assert_same(outcome.ours, outcome.theirs)
    assert_fallback(outcome.counts, "not quint8")


def test_no_images() -> None:
    x = image(1, 8, 6, 6)[:0]
    for op in (
        lambda: F.avg_pool2d(x, 2),
        lambda: F.adaptive_avg_pool2d(x, 1),
        lambda: x.mean((2, 3)),
    ):
        outcome = both(op)
        assert_same(outcome.ours, outcome.theirs)


@pytest.mark.parametrize(
    "window",
    [
        Window((2, 2), (1, 1), (2, 0), False, True, None),
        Window((9, 9), (1, 1), (0, 0), False, True, None),
        Window((2, 2), (1, 1), (0, 0), False, True, 0),
    ],
    ids=["padding", "too large", "divisor"],
)
def test_torch_says_what_is_wrong(window: Window) -> None:
    x = image(1, 8, 6, 6)
    arguments = (window.kernel, window.stride, window.padding, False, True)
    same_error(lambda: F.avg_pool2d(x, *arguments, window.divisor))


def test_an_adaptive_size_that_cannot_be() -> None:
    x = image(1, 8, 6, 6)
    same_error(lambda: F.adaptive_avg_pool2d(x[:, :0], 1))


@pytest.mark.parametrize("name", ["fbgemm", "onednn", "qnnpack"])
def test_other_engines_are_left_alone(name: str) -> None:
    x = image(1, 8, 6, 6)
    with engine(name), counted() as counts:
        F.avg_pool2d(x, 2)
        F.adaptive_avg_pool2d(x, 1)
        x.mean((2, 3))
    assert not counts.calls
    assert not counts.fallbacks
