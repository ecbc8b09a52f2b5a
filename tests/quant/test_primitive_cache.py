"""The cache of oneDNN primitives: bounded, shared, counted, emptied by one call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from _reference import Geometry, assert_quantum, conv_real, requantize
from _strategies import Values

from quant._engine import needs_front_end, running
from quant._layers import Q, pack_conv_tensors

pytestmark = needs_front_end
GEOMETRY = Geometry((1, 1), (1, 1), (1, 1))
VALUES = Values(seed=3, x_zero_point=7)
IMAGES = [(n, 8, h, w) for n in (1, 2, 4) for h, w in ((5, 5), (7, 9), (12, 6))]


@pytest.fixture(autouse=True)
def _empty_cache() -> Iterator[None]:
    import cpuaccel

    capacity = cpuaccel.config.get("primitive_cache_capacity")
    with running("onednn"):
        cpuaccel.clear_caches()
        cpuaccel.reset_stats()
        yield
    cpuaccel.config.set("primitive_cache_capacity", capacity)


def _cache() -> dict[str, int]:
    import cpuaccel

    return cpuaccel.stats()["primitive_cache"]


class _Layer:
    def __init__(self, channels_out: int = 12) -> None:
        self.weight = VALUES.weight((channels_out, 8, 3, 3))
        self.packed = pack_conv_tensors(self.weight, None, GEOMETRY)

    def run(self, shape: tuple[int, ...]) -> None:
        """One call with a checked result, which a primitive for another shape would change."""
        x = VALUES.activation(shape, "contiguous")
        actual = Q.conv2d(x, self.packed, 0.3, 50)
        real = conv_real(x, self.weight, None, GEOMETRY)
        assert_quantum(actual, requantize(real, 0.3, 50))


def test_what_was_seen_is_not_made_again() -> None:
    layer = _Layer()
    for shape in IMAGES:
        layer.run(shape)
    first = _cache()
    assert first["misses"] >= len(IMAGES)
    for shape in IMAGES:
        layer.run(shape)
    second = _cache()
    assert second["misses"] == first["misses"]
    assert second["hits"] >= first["hits"] + len(IMAGES)
    assert second["size"] == first["size"]


def test_layers_of_one_shape_share() -> None:
    first, second = _Layer(), _Layer()
    first.run(IMAGES[0])
    before = _cache()
    second.run(IMAGES[0])
    assert _cache()["misses"] == before["misses"]


def test_it_is_bounded_and_evictions_are_counted() -> None:
    import cpuaccel

    cpuaccel.config.set("primitive_cache_capacity", 4)
    layer = _Layer()
    for shape in IMAGES:
        layer.run(shape)
        assert _cache()["size"] <= 4
    cache = _cache()
    assert cache["capacity"] == 4
    assert cache["evictions"] >= len(IMAGES) - 4
    assert cache["bytes"] > 0


def test_the_least_recently_used_goes_first() -> None:
    import cpuaccel

    cpuaccel.config.set("primitive_cache_capacity", 2)
    layer = _Layer()
    a, b, c = IMAGES[:3]
    for shape in (a, b, a, c):
        layer.run(shape)
    before = _cache()["misses"]
    layer.run(a)
    assert _cache()["misses"] == before, "the one used since was evicted"
    layer.run(b)
    assert _cache()["misses"] > before


def test_a_smaller_capacity_takes_effect_at_once() -> None:
    import cpuaccel

    layer = _Layer()
    for shape in IMAGES:
        layer.run(shape)
    cpuaccel.config.set("primitive_cache_capacity", 3)
    assert _cache()["size"] <= 3


def test_no_capacity_still_runs() -> None:
    import cpuaccel

    cpuaccel.config.set("primitive_cache_capacity", 0)
    layer = _Layer()
    for shape in IMAGES[:3]:
        layer.run(shape)
        assert _cache()["size"] == 0


def test_clear_caches_empties() -> None:
    import cpuaccel

    layer = _Layer()
    layer.run(IMAGES[0])
    assert _cache()["size"] > 0
    cpuaccel.clear_caches()
    cache = _cache()
    assert (cache["size"], cache["bytes"]) == (0, 0)
    layer.run(IMAGES[0])
    assert _cache()["misses"] > cache["misses"]


def test_reset_stats_keeps_what_is_held() -> None:
    import cpuaccel

    layer = _Layer()
    layer.run(IMAGES[0])
    size = _cache()["size"]
    cpuaccel.reset_stats()
    cache = _cache()
    assert (cache["hits"], cache["misses"], cache["evictions"]) == (0, 0, 0)
    assert cache["size"] == size


def test_scales_and_zero_points_do_not_make_primitives() -> None:
    """They change from call to call in dynamic layers; a primitive gets them when it runs."""
    layer = _Layer()
    x = VALUES.activation(IMAGES[0], "contiguous")
    Q.conv2d(x, layer.packed, 0.3, 50)
    before = _cache()["misses"]
    for scale, zero_point in ((0.2, 50), (0.3, 51), (0.17, 7)):
        actual = Q.conv2d(x, layer.packed, scale, zero_point)
        real = conv_real(x, layer.weight, None, GEOMETRY)
        assert_quantum(actual, requantize(real, scale, zero_point))
    assert _cache()["misses"] == before


@pytest.mark.parametrize("value", [-1, "many", 2**31, 1.5])
def test_a_capacity_that_cannot_be_says_so(value: object) -> None:
    import cpuaccel

    with pytest.raises(ValueError, match="primitive_cache_capacity"):
        cpuaccel.config.set("primitive_cache_capacity", value)
