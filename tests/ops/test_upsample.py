"""Interpolation of quantized images.

Nearest copies bytes and equals torch. Bilinear computes in float32 with torch's own weights, with
the products in another order. It equals the rounded float64 result of those weights, and torch,
unless the result lies within 1e-4 of a half. At twice and four times the size float32 is exact, and
all are equal.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
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
aten = torch.ops.aten
NEAREST = {"nearest": aten.upsample_nearest2d, "nearest-exact": aten._upsample_nearest_exact2d}

SLACK = 1e-4
"""Quanta by which float32 may be off before it rounds."""

sizes = st.tuples(st.integers(1, 20), st.integers(1, 20))
factors = st.tuples(st.floats(0.4, 3.0), st.floats(0.4, 3.0))


@isas
@pytest.mark.parametrize("mode", NEAREST)
@given(x=images(("channels_last",)), size=sizes)
def test_nearest(isa: str, mode: str, x: Tensor, size: tuple[int, int]) -> None:
    outcome = both(lambda: F.interpolate(x, size, mode=mode), isa)
    assert_like(outcome.ours, outcome.theirs)
    assert_on_cpuaccel(outcome.counts, "upsample_nearest2d")
    definition = F.interpolate(x.int_repr(), size, mode=mode)
    assert torch.equal(outcome.ours.int_repr(), definition)
    if not torch_misplaces(x, outcome.theirs):
        assert_same(outcome.ours, outcome.theirs)


@pytest.mark.parametrize("mode", NEAREST)
@given(x=images(("channels_last",)), factors=factors)
def test_nearest_by_factors(mode: str, x: Tensor, factors: tuple[float, float]) -> None:
    if min(int(x.size(2) * factors[0]), int(x.size(3) * factors[1])) == 0:
        return
    outcome = both(lambda: F.interpolate(x, scale_factor=factors, mode=mode))
    assert_like(outcome.ours, outcome.theirs)
    if not torch_misplaces(x, outcome.theirs):
        assert_same(outcome.ours, outcome.theirs)


def _between(places: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """The two pixels around float32 positions, and the second one's weight."""
    first = places.to(torch.int64)
    return first, (first + 1).clamp(max=size - 1), (places - first).to(torch.float64)


def _places(size: int, count: int, align_corners: bool) -> Tensor:
    """The positions of the results, in float32 as torch computes them."""
    index = torch.arange(count, dtype=torch.float32)
    if align_corners:
        scale = torch.tensor(float(size - 1)) / max(count - 1, 1) if count > 1 else 0.0
        return index * scale
    return ((index + 0.5) * (torch.tensor(float(size)) / count) - 0.5).clamp(min=0)


def _bilinear(x: Tensor, size: tuple[int, int], align_corners: bool) -> Tensor:
    """The float64 result of torch's float32 weights, not rounded."""
    values = x.int_repr().to(torch.float64)
    top, bottom, down = _between(_places(x.size(2), size[0], align_corners), x.size(2))
    rows = values[:, :, top] * (1 - down)[:, None] + values[:, :, bottom] * down[:, None]
    left, right, across = _between(_places(x.size(3), size[1], align_corners), x.size(3))
    return rows[..., left] * (1 - across) + rows[..., right] * across


def _assert_bilinear(outcome: Outcome, x: Tensor, expected: Tensor) -> None:
    assert_like(outcome.ours, outcome.theirs)
    ours = outcome.ours.int_repr().to(torch.float64)
    assert not bool((ours < torch.round(expected - SLACK)).any())
    assert not bool((ours > torch.round(expected + SLACK)).any())
    if torch_misplaces(x, outcome.theirs):
        return
    differ = ours != outcome.theirs.int_repr()
    from_half = (expected - expected.floor() - 0.5).abs()
    assert not bool((differ & (from_half > SLACK)).any())


@isas
@given(x=images(("channels_last",)), size=sizes, align_corners=st.booleans())
def test_bilinear(isa: str, x: Tensor, size: tuple[int, int], align_corners: bool) -> None:
    outcome = both(
        lambda: F.interpolate(x, size, mode="bilinear", align_corners=align_corners), isa
    )
    assert_on_cpuaccel(outcome.counts, "upsample_bilinear2d")
    _assert_bilinear(outcome, x, _bilinear(x, size, align_corners))


@isas
@pytest.mark.parametrize("factor", [2, 4])
@pytest.mark.parametrize("channels", [1, 7, 24, 64, 100])
def test_bilinear_is_equal_at_twice_the_size(isa: str, channels: int, factor: int) -> None:
    x = image(2, channels, 9, 10)
    outcome = both(lambda: F.interpolate(x, scale_factor=factor, mode="bilinear"), isa)
    assert_same(outcome.ours, outcome.theirs)
    expected = _bilinear(x, (9 * factor, 10 * factor), align_corners=False)
    odd = x.q_zero_point() % 2 if ZERO_POINT_AFTER_ROUNDING else 0
    assert torch.equal(outcome.ours.int_repr(), (torch.round(expected - odd) + odd).to(torch.uint8))


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("size", [(65, 65), (37, 91), (14, 14)])
def test_bilinear_agrees_on_large_images(size: tuple[int, int], align_corners: bool) -> None:
    x = image(1, 64, 28, 28)
    outcome = both(lambda: F.interpolate(x, size, mode="bilinear", align_corners=align_corners))
    _assert_bilinear(outcome, x, _bilinear(x, size, align_corners))


@given(x=images(("channels_last",)), factors=factors)
def test_bilinear_by_factors(x: Tensor, factors: tuple[float, float]) -> None:
    if min(int(x.size(2) * factors[0]), int(x.size(3) * factors[1])) == 0:
        return
    outcome = both(lambda: F.interpolate(x, scale_factor=factors, mode="bilinear"))
    assert_like(outcome.ours, outcome.theirs)
    if not torch_misplaces(x, outcome.theirs):
        off = outcome.ours.int_repr().int() - outcome.theirs.int_repr().int()
        assert int(off.abs().max()) <= 1


def test_scales_that_point_beyond_the_image() -> None:
    x = image(1, 16, 4, 4)
    ours = both(lambda: aten.upsample_nearest2d(x, [8, 8], 0.1, 0.1)).ours
    assert torch.equal(ours.int_repr()[..., 7, 7], x.int_repr()[..., 3, 3])
    with engine("x86"):
        ours = aten.upsample_bilinear2d(x, [8, 8], False, 0.1, 0.1)
    assert torch.equal(ours.int_repr()[..., 7, 7], x.int_repr()[..., 3, 3])


WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "nearest": lambda x: F.interpolate(x, (7, 9), mode="nearest"),
    "nearest-exact": lambda x: F.interpolate(x, (7, 9), mode="nearest-exact"),
    "bilinear": lambda x: F.interpolate(x, (7, 9), mode="bilinear"),
}
ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())


@ways
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_looks_as_torch_has_it(way: Callable[[Tensor], Tensor], layout: str) -> None:
    x = image(2, 6, 4, 5, layout=layout)
    outcome = both(lambda: way(x))
    assert_like(outcome.ours, outcome.theirs)


@ways
def test_threads_agree(way: Callable[[Tensor], Tensor]) -> None:
    x = image(3, 300, 20, 20)
    torch.set_num_threads(1)
    one = both(lambda: way(x)).ours
    torch.set_num_threads(4)
    assert_same(both(lambda: way(x)).ours, one)


@ways
def test_unsupported_calls_fall_back(way: Callable[[Tensor], Tensor]) -> None:
    contiguous = image(1, 8, 4, 4, layout="contiguous")
    outcome = both(lambda: way(contiguous))
    assert_same(outcome.ours, outcome.theirs)
    assert_fallback(outcome.counts, "input is not channels_last")
    signed = torch.quantize_per_tensor(torch.randn(1, 8, 4, 4), 0.1, 0, torch.qint8)
    outcome = both(lambda: way(signed))
    assert_same(outcome.ours, outcome.theirs)
    assert_fallback(outcome.counts, "not quint8")


@ways
def test_no_images(way: Callable[[Tensor], Tensor]) -> None:
    x = image(1, 8, 4, 4)[:0]
    outcome = both(lambda: way(x))
    assert_same(outcome.ours, outcome.theirs)


def test_torch_says_what_is_wrong() -> None:
    x = image(1, 8, 4, 4)
    same_error(lambda: aten.upsample_bilinear2d(x, [0, 3], False))
    same_error(lambda: aten.upsample_bilinear2d(x[:, :0], [3, 3], False))


@pytest.mark.parametrize("name", ["fbgemm", "onednn", "qnnpack"])
@ways
def test_other_engines_are_left_alone(way: Callable[[Tensor], Tensor], name: str) -> None:
    x = image(1, 8, 4, 4)
    with engine(name), counted() as counts:
        way(x)
    assert not counts.calls
    assert not counts.fallbacks
