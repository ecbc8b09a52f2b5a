"""quantized_max_pool2d against torch's own kernel and the definition: no rounding, so equal."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from quant._engine import counted, engine, needs_front_end
from torch import Tensor

from ops._compare import (
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


@dataclass(frozen=True)
class Window:
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    ceil_mode: bool

    def pool(self, x: Tensor) -> Tensor:
        return F.max_pool2d(
            x, self.kernel, self.stride, self.padding, self.dilation, self.ceil_mode
        )


@st.composite
def windows(draw: st.DrawFn) -> Window:
    def pair(low: int, high: int) -> tuple[int, int]:
        return draw(st.integers(low, high)), draw(st.integers(low, high))

    kernel = pair(1, 5)
    return Window(
        kernel=kernel,
        stride=pair(1, 3),
        padding=(draw(st.integers(0, kernel[0] // 2)), draw(st.integers(0, kernel[1] // 2))),
        dilation=pair(1, 3),
        ceil_mode=draw(st.booleans()),
    )


def _fits(x: Tensor, window: Window) -> bool:
    """Whether a window fits into the image with its padding and, in ceil mode, rounding up."""
    spans = [d * (k - 1) + 1 for d, k in zip(window.dilation, window.kernel, strict=True)]
    more = [s - 1 if window.ceil_mode else 0 for s in window.stride]
    sizes = zip(x.shape[2:], window.padding, spans, more, strict=True)
    return all(size + 2 * padding - span + up >= 0 for size, padding, span, up in sizes)


def _pooled(x: Tensor, window: Window, isa: str = "auto") -> Outcome | None:
    """None if the window does not fit into the image, which torch rejects."""
    if not _fits(x, window):
        same_error(lambda: window.pool(x))
        return None
    return both(lambda: window.pool(x), isa)


@isas
@given(x=images(("channels_last",)), window=windows())
def test_channels_last_runs_here(isa: str, x: Tensor, window: Window) -> None:
    outcome = _pooled(x, window, isa)
    if outcome is None:
        return
    assert_like(outcome.ours, outcome.theirs)
    assert_on_cpuaccel(outcome.counts, "max_pool2d")
    if not torch_misplaces(x, outcome.theirs):
        assert_same(outcome.ours, outcome.theirs)
    # The integers are ordered like the real values, and padding is less than all of them.
    definition = window.pool(x.int_repr().to(torch.float64))
    assert torch.equal(outcome.ours.int_repr(), definition.clamp(min=0).to(torch.uint8))


@given(x=images(), window=windows())
def test_any_layout_is_as_torch_has_it(x: Tensor, window: Window) -> None:
    outcome = _pooled(x, window)
    if outcome is not None and not torch_misplaces(x, outcome.theirs):
        assert_same(outcome.ours, outcome.theirs)


@pytest.mark.parametrize("shape", [(1, 24, 112, 112), (2, 64, 56, 56), (1, 512, 14, 14)])
def test_sizes_of_real_networks(shape: tuple[int, ...]) -> None:
    x = image(*shape)
    outcome = both(lambda: F.max_pool2d(x, 3, 2, 1))
    assert_same(outcome.ours, outcome.theirs)
    assert_on_cpuaccel(outcome.counts, "max_pool2d")


def test_threads_agree() -> None:
    x = image(4, 40, 50, 51)
    torch.set_num_threads(1)
    one = both(lambda: F.max_pool2d(x, 3, 1, 1)).ours
    torch.set_num_threads(4)
    assert_same(both(lambda: F.max_pool2d(x, 3, 1, 1)).ours, one)


def test_every_way_to_it() -> None:
    x = image(1, 8, 6, 6)
    ways = [
        lambda: torch.nn.MaxPool2d(2)(x),
        lambda: torch.quantized_max_pool2d(x, [2, 2], [2, 2], [0, 0], [1, 1], False),
        lambda: torch.ops.quantized.max_pool2d(x, [2, 2], [2, 2], [0, 0], [1, 1], False),
    ]
    for way in ways:
        outcome = both(way)
        assert_same(outcome.ours, outcome.theirs)
        assert_on_cpuaccel(outcome.counts, "max_pool2d")


@pytest.mark.parametrize(
    ("x", "reason"),
    [
        (image(1, 8, 6, 6, layout="contiguous"), "input is not channels_last"),
        (image(8, 6, 6, layout="contiguous"), "input is not channels_last"),
        (torch.quantize_per_tensor(torch.randn(1, 8, 6, 6), 0.1, 0, torch.qint8), "not quint8"),
    ],
    ids=["contiguous", "unbatched", "qint8"],
)
def test_unsupported_calls_fall_back(x: Tensor, reason: str) -> None:
    outcome = both(lambda: F.max_pool2d(x, 2))
    assert_same(outcome.ours, outcome.theirs)
    assert_fallback(outcome.counts, reason)


def test_one_dimension() -> None:
    x = image(2, 8, 6, layout="contiguous")
    outcome = both(lambda: F.max_pool1d(x, 2))
    assert_same(outcome.ours, outcome.theirs)


def test_no_images() -> None:
    x = image(1, 8, 6, 6)[:0]
    outcome = both(lambda: F.max_pool2d(x, 2))
    assert_same(outcome.ours, outcome.theirs)


@pytest.mark.parametrize(
    "window",
    [
        Window((0, 2), (1, 1), (0, 0), (1, 1), False),
        Window((2, 2), (1, 0), (0, 0), (1, 1), False),
        Window((2, 2), (1, 1), (2, 0), (1, 1), False),
        Window((2, 2), (1, 1), (0, 0), (1, 0), False),
        Window((9, 9), (1, 1), (0, 0), (1, 1), False),
        Window((2, 2), (1, 1), (-1, 0), (1, 1), False),
    ],
    ids=["kernel", "stride", "padding", "dilation", "too large", "negative padding"],
)
def test_torch_says_what_is_wrong(window: Window) -> None:
    same_error(lambda: window.pool(image(1, 8, 6, 6)))


def test_one_pixel_and_several_results() -> None:
    x = torch.quantize_per_tensor(torch.tensor([3.0, 7.0]).view(1, 2, 1, 1), 1.0, 0, torch.quint8)
    outcome = both(lambda: F.max_pool2d(x, 2, 1, 1))
    assert torch_misplaces(x, outcome.theirs)
    assert_like(outcome.ours, outcome.theirs)
    assert outcome.ours.int_repr().flatten().tolist() == [3] * 4 + [7] * 4


@pytest.mark.parametrize("name", ["fbgemm", "onednn", "qnnpack"])
def test_other_engines_are_left_alone(name: str) -> None:
    x = image(1, 8, 6, 6)
    with engine(name), counted() as counts:
        F.max_pool2d(x, 2)
    assert not counts.calls
    assert not counts.fallbacks
