"""quantized::add and mul: torch's vectorized float32 arithmetic, and the rounded float64 result."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from quant._engine import needs_front_end, off, running
from torch import Tensor

from ops._compare import assert_fallback, assert_like, assert_on_cpuaccel, assert_same, both, isas
from ops._quantizers import (
    assert_rounded,
    drawn_quantizers,
    every_pair,
    every_value,
    images,
    layouts,
    make,
    quantizers,
    reals,
    shapes,
    tensor,
)

pytestmark = needs_front_end
Q = torch.ops.quantized
Op = Callable[[Tensor, Tensor, float, int], Tensor]

OPS: dict[str, Op] = {"add": Q.add, "add_relu": Q.add_relu, "mul": Q.mul, "mul_relu": Q.mul_relu}
each = pytest.mark.parametrize("name", OPS)


def real_of(name: str, a: Tensor, b: Tensor) -> Tensor:
    """The float64 result."""
    real = reals(a) + reals(b) if name.startswith("add") else reals(a) * reals(b)
    return real.clamp(min=0) if name.endswith("relu") else real


def slack_of(name: str, a: Tensor, b: Tensor, scale: float) -> float:
    """The error of float32 before rounding, in quanta: a few units in the last place."""
    largest_a, largest_b = 255 * a.q_scale(), 255 * b.q_scale()
    largest = largest_a + largest_b if name.startswith("add") else largest_a * largest_b
    return max(1e-4, largest / scale * 2**-22)


@each
@isas
def test_every_pair(name: str, isa: str) -> None:
    cases = zip(quantizers(6, 1), quantizers(6, 2), quantizers(6, 3), strict=True)
    for first, second, (scale, zero_point) in cases:
        a, b = every_pair(first, second)
        outcome = both(lambda a=a, b=b, s=scale, z=zero_point: OPS[name](a, b, s, z), isa)
        assert_same(outcome.ours, outcome.theirs)
        assert_on_cpuaccel(outcome.counts, name.removesuffix("_relu"))
        assert_rounded(outcome.ours, real_of(name, a, b), slack_of(name, a, b, scale))


@each
def test_round_quantizers_make_ties(name: str) -> None:
    a, b = every_pair((0.1, 128), (0.1, 3))
    outcome = both(lambda: OPS[name](a, b, 0.2, 17))
    assert_same(outcome.ours, outcome.theirs)


def assert_close(name: str, a: Tensor, b: Tensor, ours: Tensor, theirs: Tensor) -> None:
    """Close to torch's result, whose scalar formula computes the last elements."""
    assert_like(ours, theirs)
    assert_rounded(ours, real_of(name, a, b), slack_of(name, a, b, ours.q_scale()))
    distance = (ours.int_repr().int() - theirs.int_repr().int()).abs()
    assert not distance.numel() or int(distance.max()) <= 1


@each
@given(shape=shapes, one=layouts, other=layouts, seed=st.integers(0, 99), data=st.data())
def test_same_shape(
    name: str, shape: tuple[int, ...], one: str, other: str, seed: int, data: st.DataObject
) -> None:
    a = tensor(shape, one, data.draw(drawn_quantizers()), seed)
    b = tensor(shape, other, data.draw(drawn_quantizers()), seed + 1)
    scale, zero_point = data.draw(drawn_quantizers())
    outcome = both(lambda: OPS[name](a, b, scale, zero_point))
    assert_close(name, a, b, outcome.ours, outcome.theirs)
    if a.numel():
        assert_on_cpuaccel(outcome.counts, name.removesuffix("_relu"))


@each
@given(image=images, seed=st.integers(0, 99), shared=st.booleans(), data=st.data())
def test_one_value_for_each_channel(
    name: str, image: tuple[int, ...], seed: int, shared: bool, data: st.DataObject
) -> None:
    n, c, h, w = image
    whole = tensor((n, c, h, w), "channels_last", data.draw(drawn_quantizers()), seed)
    each_channel = tensor(
        (1 if shared else n, c, 1, 1), "channels_last", data.draw(drawn_quantizers()), seed + 1
    )
    first = name.startswith("mul") and data.draw(st.booleans())
    a, b = (each_channel, whole) if first else (whole, each_channel)
    scale, zero_point = data.draw(drawn_quantizers())
    outcome = both(lambda: OPS[name](a, b, scale, zero_point))
    assert_close(name, a, b, outcome.ours, outcome.theirs)
    if c > 1 and h * w > 1 and not first:
        assert_on_cpuaccel(outcome.counts, name.removesuffix("_relu"))


@each
@pytest.mark.parametrize("shape", [(2, 72, 14, 14), (1, 960, 7, 7), (3, 16, 40, 40)])
def test_squeeze_and_excite(name: str, shape: tuple[int, ...]) -> None:
    n, c = shape[:2]
    x = tensor(shape, "channels_last", (0.03, 100), 1)
    # Strides as a convolution returns them: channels_last, which torch distinguishes from
    # contiguous.
    gate = torch._empty_affine_quantized(
        (n, c, 1, 1), scale=1 / 255, zero_point=9, dtype=torch.quint8
    ).contiguous(memory_format=torch.channels_last)
    gate = tensor((n, c, 1, 1), "contiguous", (1 / 255, 9), 2).as_strided(
        (n, c, 1, 1), (c, 1, c, c)
    )
    pairs = [(x, gate)] if name.startswith("add") else [(x, gate), (gate, x)]
    for a, b in pairs:
        outcome = both(lambda a=a, b=b: OPS[name](a, b, 0.05, 20))
        assert outcome.ours.is_contiguous(memory_format=torch.channels_last)
        assert_close(name, a, b, outcome.ours, outcome.theirs)
        assert_on_cpuaccel(outcome.counts, name.removesuffix("_relu"))


@each
@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1, 1)])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_one_value_for_all(name: str, shape: tuple[int, ...], layout: str) -> None:
    x = tensor((2, 19, 5, 6), layout, (0.03, 100), 1)
    one = make(torch.full(shape, 77, dtype=torch.uint8), 0.02, 20)
    outcome = both(lambda: OPS[name](x, one, 0.05, 20))
    assert_close(name, x, one, outcome.ours, outcome.theirs)
    assert_on_cpuaccel(outcome.counts, name.removesuffix("_relu"))
    if name.startswith("mul"):  # a sum has the shape of its first operand
        outcome = both(lambda: OPS[name](one, x, 0.05, 20))
        assert_close(name, one, x, outcome.ours, outcome.theirs)


def test_private_add() -> None:
    a, b = every_pair((0.03, 5), (0.07, 200))
    outcome = both(lambda: torch.ops._quantized.add(a, b, 0.09, 50))
    assert_same(outcome.ours, outcome.theirs)
    assert_on_cpuaccel(outcome.counts, "add")


def test_large() -> None:
    a = tensor((1, 64, 56, 56), "channels_last", (0.03, 12), 1)
    b = tensor((1, 64, 56, 56), "channels_last", (0.05, 55), 2)
    for name, op in OPS.items():
        outcome = both(lambda op=op: op(a, b, 0.07, 3))
        assert_close(name, a, b, outcome.ours, outcome.theirs)
        assert_on_cpuaccel(outcome.counts, name.removesuffix("_relu"))


@pytest.mark.parametrize(
    ("a", "b", "scale", "reason"),
    [
        (
            tensor((2, 5, 6, 7), "contiguous", (0.1, 3), 1),
            tensor((7,), "contiguous", (0.1, 3), 2),
            1.0,
            "unsupported broadcast",
        ),
        (
            every_value(0.1, 3, torch.qint8),
            every_value(0.1, 3, torch.qint8),
            1.0,
            "not quint8",
        ),
        (every_value(1e6, 3), every_value(1e6, 3), 1e-5, "unsupported ratio of scales"),
        (every_value(0.1, 3), every_value(0.1, 3), -1.0, "unsupported ratio of scales"),
        (every_value(0.1, 3), every_value(0.1, 3), 0.0, "unsupported ratio of scales"),
    ],
)
def test_unsupported_calls_fall_back(a: Tensor, b: Tensor, scale: float, reason: str) -> None:
    outcome = both(lambda: Q.add(a, b, scale, 3))
    assert_same(outcome.ours, outcome.theirs)
    assert_fallback(outcome.counts, reason)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (every_value(0.1, 3), torch.randn(256)),
        (every_value(0.1, 3), every_value(0.1, 3, torch.qint8)),
        (every_value(0.1, 3), every_value(0.1, 3)[:7]),
        (
            torch.quantize_per_channel(
                torch.randn(4, 5), torch.full((4,), 0.1), torch.zeros(4).int(), 0, torch.quint8
            ),
            tensor((4, 5), "contiguous", (0.1, 3), 1),
        ),
    ],
)
@pytest.mark.parametrize("name", ["add", "mul"])
def test_errors_are_torchs(a: Tensor, b: Tensor, name: str) -> None:
    messages = []
    for context in (running("auto"), off()):
        with context, pytest.raises(RuntimeError) as error:
            OPS[name](a, b, 0.1, 3)
        messages.append(str(error.value).splitlines()[0])
    assert messages[0] == messages[1]


def test_nothing_at_all() -> None:
    a = tensor((0, 3), "contiguous", (0.1, 3), 1)
    for op in OPS.values():
        outcome = both(lambda op=op: op(a, a, 0.1, 3))
        assert_same(outcome.ours, outcome.theirs)
