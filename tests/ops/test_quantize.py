"""quantize_per_tensor and dequantize: torch's results, bit for bit."""

from __future__ import annotations

import math

import pytest
import torch
from _strategies import with_layout
from hypothesis import given
from hypothesis import strategies as st
from quant._engine import counted, needs_front_end, off, running
from torch import Tensor

from ops._compare import assert_fallback, assert_on_cpuaccel, assert_same, both, isas
from ops._quantizers import (
    DTYPES,
    drawn_quantizers,
    dtypes,
    every_value,
    layouts,
    limits,
    quantizers,
    shapes,
    tensor,
)

pytestmark = needs_front_end


def floats(shape: tuple[int, ...], layout: str, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    if len(shape) < 2 and layout in ("permuted", "channels_last", "expanded", "offset"):
        layout = "contiguous"
    return with_layout(lambda size: torch.randn(size, generator=generator) * 5, shape, layout)


@pytest.mark.parametrize("dtype", DTYPES)
@isas
def test_many_numbers(dtype: torch.dtype, isa: str) -> None:
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(5000, generator=generator) * 10
    for scale, zero_point in quantizers(30, 1, dtype):
        outcome = both(lambda s=scale, z=zero_point: torch.quantize_per_tensor(x, s, z, dtype), isa)
        assert_same(outcome.ours, outcome.theirs)
        assert_on_cpuaccel(outcome.counts, "quantize")
        # The definition in float64, from the float32 product.
        inverse = 1 / torch.tensor(scale, dtype=torch.float32)
        expected = (torch.round((x * inverse).double()) + zero_point).clamp(*limits(dtype))
        assert torch.equal(outcome.ours.int_repr().double(), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@isas
@pytest.mark.parametrize("count", [9, 64])
def test_ties_limits_and_no_numbers(dtype: torch.dtype, isa: str, count: int) -> None:
    special = [math.inf, -math.inf, math.nan, 3e38, -3e38, 2.2e8, -2.2e8, 1e-45, -0.0]
    ties = [i + 0.5 for i in range(-32, 32)]
    for values in (special, ties):
        x = torch.tensor((values * count)[:count])
        for zero_point in (*limits(dtype), 3):
            for scale in (0.1, 1.0, 1e-40, 0.0, -1.0, math.nan):
                outcome = both(
                    lambda x=x, s=scale, z=zero_point: torch.quantize_per_tensor(x, s, z, dtype),
                    isa,
                )
                assert torch.equal(outcome.ours.int_repr(), outcome.theirs.int_repr())
                assert_on_cpuaccel(outcome.counts, "quantize")


@given(shape=shapes, layout=layouts, dtype=dtypes, seed=st.integers(0, 99), data=st.data())
def test_quantize_every_shape_and_layout(
    shape: tuple[int, ...], layout: str, dtype: torch.dtype, seed: int, data: st.DataObject
) -> None:
    scale, zero_point = data.draw(drawn_quantizers(dtype))
    x = floats(shape, layout, seed)
    outcome = both(lambda: torch.quantize_per_tensor(x, scale, zero_point, dtype))
    assert_same(outcome.ours, outcome.theirs)
    assert_on_cpuaccel(outcome.counts, "quantize")


@pytest.mark.parametrize("dtype", DTYPES)
@isas
def test_dequantize_every_value(dtype: torch.dtype, isa: str) -> None:
    for quantizer in quantizers(40, 2, dtype):
        x = every_value(*quantizer, dtype)
        outcome = both(lambda x=x: x.dequantize(), isa)
        assert torch.equal(outcome.ours, outcome.theirs)
        assert_on_cpuaccel(outcome.counts, "dequantize")
        scale = float(torch.tensor(quantizer[0], dtype=torch.float32))
        exact = (x.int_repr().double() - quantizer[1]) * scale
        assert torch.equal(outcome.ours, exact.float())


@given(shape=shapes, layout=layouts, dtype=dtypes, seed=st.integers(0, 99), data=st.data())
def test_dequantize_every_shape_and_layout(
    shape: tuple[int, ...], layout: str, dtype: torch.dtype, seed: int, data: st.DataObject
) -> None:
    x = tensor(shape, layout, data.draw(drawn_quantizers(dtype)), seed, dtype)
    outcome = both(x.dequantize)
    assert outcome.ours.stride() == outcome.theirs.stride()
    assert outcome.ours.dtype == torch.float32
    assert torch.equal(outcome.ours, outcome.theirs)
    assert_on_cpuaccel(outcome.counts, "dequantize")


@pytest.mark.parametrize("shape", [(1, 64, 56, 56), (2, 3, 4, 5, 6)])
def test_channels_last_both_ways(shape: tuple[int, ...]) -> None:
    x = floats(shape, "channels_last", 1)
    outcome = both(lambda: torch.quantize_per_tensor(x, 0.1, 7, torch.quint8))
    assert_same(outcome.ours, outcome.theirs)
    assert not outcome.ours.is_contiguous()
    assert_on_cpuaccel(outcome.counts, "quantize")
    back = both(outcome.ours.dequantize)
    assert back.ours.stride() == back.theirs.stride() == x.stride()
    assert torch.equal(back.ours, back.theirs)
    assert_on_cpuaccel(back.counts, "dequantize")


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_quantizer_of_tensors(shape: tuple[int, ...]) -> None:
    x = torch.randn(50)
    scale, zero_point = torch.full(shape, 0.1), torch.full(shape, 3)
    outcome = both(lambda: torch.quantize_per_tensor(x, scale, zero_point, torch.quint8))
    assert_same(outcome.ours, outcome.theirs)
    assert_on_cpuaccel(outcome.counts, "quantize")


def test_a_quantizer_of_other_tensors() -> None:
    x = torch.randn(50)
    scale, zero_point = torch.tensor(0.1, dtype=torch.float64), torch.tensor(3)
    outcome = both(lambda: torch.quantize_per_tensor(x, scale, zero_point, torch.quint8))
    assert_same(outcome.ours, outcome.theirs)
    assert_fallback(outcome.counts, "scale is not one float32, or zero_point not one int64")
    for context in (running("auto"), off()):
        with context, pytest.raises(RuntimeError):
            torch.quantize_per_tensor(x, torch.ones(2), zero_point, torch.quint8)


def test_a_list() -> None:
    q = torch.quantize_per_tensor(torch.randn(50), 0.1, 3, torch.quint8)
    with running("auto"):
        ours = torch.dequantize([q, q])
    assert torch.equal(ours[1], q.dequantize())


def test_unsupported_calls_fall_back() -> None:
    x = torch.randn(4, 6)
    outcome = both(lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.qint32))
    assert_same(outcome.ours, outcome.theirs)
    assert_fallback(outcome.counts, "dtype is not quint8 or qint8")
    per_channel = torch.quantize_per_channel(
        x, torch.full((4,), 0.1), torch.zeros(4).int(), 0, torch.quint8
    )
    outcome = both(per_channel.dequantize)
    assert torch.equal(outcome.ours, outcome.theirs)
    assert_fallback(outcome.counts, "quantized per channel")


@pytest.mark.parametrize(
    ("x", "zero_point", "dtype", "message"),
    [
        (torch.randn(3), 256, torch.quint8, "zero_point 256 is above upper bound"),
        (torch.randn(3), -1, torch.quint8, "zero_point -1 is below lower bound"),
        (torch.randn(3), 128, torch.qint8, "zero_point 128 is above upper bound"),
        (torch.randn(3).double(), 3, torch.quint8, "Quantize only works on Float Tensor"),
    ],
)
def test_errors_are_torchs(x: Tensor, zero_point: int, dtype: torch.dtype, message: str) -> None:
    for context in (running("auto"), off()):
        with context, pytest.raises(RuntimeError, match=message):
            torch.quantize_per_tensor(x, 0.1, zero_point, dtype)


def test_a_source_that_needs_a_gradient() -> None:
    x = torch.randn(70, requires_grad=True)
    with running("auto"), counted() as counts:
        ours = torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)
    with off():
        theirs = torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)
    assert_same(ours, theirs)
    assert_on_cpuaccel(counts, "quantize")
    assert ours.requires_grad == theirs.requires_grad
