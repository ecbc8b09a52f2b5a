"""Concatenation: torch's results, bit for bit where torch rounds all elements alike."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from quant._engine import Counts, needs_front_end, off, running
from torch import Tensor

from ops._compare import assert_like, assert_same, both, isas
from ops._quantizers import (
    DTYPES,
    assert_rounded,
    drawn_quantizers,
    dtypes,
    every_value,
    layouts,
    quantizers,
    reals,
    tensor,
)

pytestmark = needs_front_end
Q = torch.ops.quantized


def real_of(inputs: list[Tensor], dim: int, relu: bool = False) -> Tensor:
    real = torch.cat([reals(x) for x in inputs], dim)
    return real.clamp(min=0) if relu else real


def assert_cat(counts: Counts) -> None:
    """One concatenation by cpuaccel; making a table calls other overridden ops."""
    assert counts.calls.get("cat.cpuaccel") == 1, f"ran {counts.calls}, {counts.fallbacks}"
    assert not counts.fallbacks


def assert_close(ours: Tensor, theirs: Tensor, real: Tensor, largest: float) -> None:
    assert_like(ours, theirs)
    assert_rounded(ours, real, 1e-4 + 255 * largest / ours.q_scale() * 2**-22)
    distance = (ours.int_repr().int() - theirs.int_repr().int()).abs()
    assert not distance.numel() or int(distance.max()) <= 1


@pytest.mark.parametrize("name", ["cat", "cat_relu"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", ["flat", "channels"])
@isas
def test_every_value(name: str, dtype: torch.dtype, form: str, isa: str) -> None:
    cases = zip(quantizers(10, 1, dtype), quantizers(10, 2, dtype), strict=True)
    for first, second in cases:
        inputs = [every_value(*first, dtype), every_value(*second, dtype)]
        dim = 0
        if form == "channels":
            inputs, dim = [x.view(1, 256, 1, 1) for x in inputs], 1
        outcome = both(
            lambda i=inputs, d=dim, s=second: getattr(Q, name)(i, d, s[0] * 1.3, s[1]), isa
        )
        assert_same(outcome.ours, outcome.theirs)
        assert_cat(outcome.counts)
        real = real_of(inputs, dim, name == "cat_relu")
        largest = max(first[0], second[0])
        assert_close(outcome.ours, outcome.theirs, real, largest)


@st.composite
def several(draw: st.DrawFn, same_quantizer: bool) -> tuple[list[Tensor], int]:
    """Tensors that differ along one dimension, in one layout or in several."""
    dtype = draw(dtypes)
    dims = draw(st.integers(1, 5))
    size = draw(st.lists(st.integers(1, 7), min_size=dims, max_size=dims))
    dim = draw(st.integers(0, dims - 1))
    layout = draw(layouts)
    quantizer = draw(drawn_quantizers(dtype))
    inputs = []
    for i in range(draw(st.integers(1, 4))):
        size[dim] = draw(st.integers(1, 40))
        mine = layout if draw(st.integers(0, 5)) else draw(layouts)
        if not same_quantizer and draw(st.booleans()):
            quantizer = draw(drawn_quantizers(dtype))
        inputs.append(tensor(tuple(size), mine, quantizer, i, dtype))
    return inputs, draw(st.sampled_from((dim, dim - dims)))


@given(drawn=several(False), own=st.booleans(), relu=st.booleans(), data=st.data())
def test_quantized_cat(
    drawn: tuple[list[Tensor], int], own: bool, relu: bool, data: st.DataObject
) -> None:
    inputs, dim = drawn
    quantizer = (None, None) if own else data.draw(drawn_quantizers(inputs[0].dtype))
    op = Q.cat_relu if relu else Q.cat
    outcome = both(lambda: op(inputs, dim, *quantizer))
    largest = max(x.q_scale() for x in inputs)
    assert_close(outcome.ours, outcome.theirs, real_of(inputs, dim, relu), largest)
    assert_cat(outcome.counts)


@given(drawn=several(True))
def test_cat_of_one_quantizer(drawn: tuple[list[Tensor], int]) -> None:
    inputs, dim = drawn
    outcome = both(lambda: torch.cat(inputs, dim))
    assert_same(outcome.ours, outcome.theirs)
    assert_cat(outcome.counts)


@pytest.mark.parametrize("channels", [(64, 64), (58, 58), (16, 24, 3), (256, 1), (5000, 17)])
@pytest.mark.parametrize("same", [True, False])
def test_channels_of_images(channels: tuple[int, ...], same: bool) -> None:
    inputs = [
        tensor((2, c, 9, 11), "channels_last", (0.05, 30) if same else (0.05 + 0.01 * i, 9 * i), i)
        for i, c in enumerate(channels)
    ]
    outcome = both(lambda: Q.cat(inputs, 1, 0.05, 30))
    assert outcome.ours.is_contiguous(memory_format=torch.channels_last)
    assert_close(outcome.ours, outcome.theirs, real_of(inputs, 1), 0.1)
    assert_cat(outcome.counts)


@pytest.mark.parametrize("same", [True, False])
def test_half_of_the_channels(same: bool) -> None:
    """As in shufflenet: one half of an image's channels, beside another image."""
    whole = tensor((2, 116, 9, 11), "channels_last", (0.05, 30), 1)
    other = tensor((2, 58, 9, 11), "channels_last", (0.05, 30) if same else (0.07, 3), 2)
    half = whole.chunk(2, 1)[0]
    for inputs in ([half, other], [other, half], [half, half]):
        outcome = both(lambda i=inputs: torch.cat(i, 1))
        assert_same(outcome.ours, outcome.theirs)
        assert_cat(outcome.counts)


def test_scales_that_torch_takes_for_the_same() -> None:
    inputs = [every_value(1e-5, 9), every_value(9e-5, 9)]
    outcome = both(lambda: torch.cat(inputs))
    assert_same(outcome.ours, outcome.theirs)
    assert not torch.equal(outcome.ours.int_repr()[256:], inputs[1].int_repr())


def test_unsupported_calls_fall_back() -> None:
    empty = tensor((2, 0), "contiguous", (0.1, 3), 3)
    some = tensor((2, 3), "contiguous", (0.1, 3), 3)
    wide = torch.quantize_per_tensor(torch.randn(4), 0.1, 0, torch.qint32)
    for inputs, dim, reason in (
        ([empty, some], 1, "an input is empty"),
        ([wide, wide], 0, "not quint8 or qint8"),
    ):
        outcome = both(lambda i=inputs, d=dim: Q.cat(i, d, None, None))
        assert_same(outcome.ours, outcome.theirs)
        assert "cat.cpuaccel" not in outcome.counts.calls
        assert any(reason in name for name in outcome.counts.fallbacks), outcome.counts


@pytest.mark.parametrize(
    ("inputs", "dim"),
    [
        ([], 0),
        ([every_value(0.1, 3)[0]], 0),
        ([every_value(0.1, 3)], 1),
        ([every_value(0.1, 3), every_value(0.1, 3, torch.qint8)], 0),
        ([tensor((2, 3), "contiguous", (0.1, 3), 1), tensor((4, 5), "contiguous", (0.1, 3), 1)], 0),
        ([every_value(0.1, 3), torch.randn(4)], 0),
    ],
)
@pytest.mark.parametrize("name", ["quantized", "aten"])
def test_errors_are_torchs(inputs: list[Tensor], dim: int, name: str) -> None:
    messages = []
    for context in (running("auto"), off()):
        with (
            context,
            pytest.raises((RuntimeError, IndexError, NotImplementedError, ValueError)) as error,
        ):
            torch.cat(inputs, dim) if name == "aten" else Q.cat(inputs, dim, None, None)
        messages.append(str(error.value).splitlines()[0])
    assert messages[0] == messages[1]


def test_aten_takes_the_quantizer_of_the_first() -> None:
    inputs = [every_value(0.1, 3), every_value(0.2, 40), every_value(0.01, 200)]
    outcome = both(lambda: torch.cat(inputs))
    assert_same(outcome.ours, outcome.theirs)
    assert_cat(outcome.counts)
