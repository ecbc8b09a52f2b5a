"""cpuaccel's int8 layer kernels, for all 8 bits of activations and weights.

Every ISA gives the bytes of the reference kernel, which gives the float64 definition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import pytest
import torch
from _reference import Geometry, assert_quantum, requantize
from _strategies import ConvCase, FullRange, LinearCase, Values, convs, linears
from hypothesis import given
from hypothesis import strategies as st
from ops._compare import ISAS, capped
from torch import Tensor

from quant._engine import counted, needs_front_end, running
from quant._layers import Q, conv_op, pack_conv, pack_linear, real_of

pytestmark = needs_front_end


def _full_range(values: Values) -> FullRange:
    kept = {field.name: getattr(values, field.name) for field in fields(values)}
    return FullRange(**{**kept, "symmetric": True})


def check(case: ConvCase | LinearCase, run: Callable[[float], Tensor], relu: bool) -> None:
    """`run` packs and runs the case with the given scale."""
    real = real_of(case)
    real = real.clamp(min=0) if relu else real
    scale = case.values.output_scale(real)
    with running("cpuaccel"):
        results = {}
        for isa in ISAS:
            with capped(isa), counted() as counts:
                results[isa] = run(scale)
            assert not counts.fallbacks, counts.fallbacks
            ran = [name.rpartition(".")[2] for name in counts.without_copies()]
            assert ran == (["cpuaccel"] if real.numel() else [])
    assert_quantum(results["ref"], requantize(real, scale, case.values.y_zero_point))
    expected = results["ref"].int_repr()
    for isa, result in results.items():
        assert torch.equal(result.int_repr(), expected), isa


def check_conv(case: ConvCase, relu: bool = False) -> None:
    op = conv_op(case, "_relu" if relu else "")
    check(case, lambda scale: op(case.x, pack_conv(case), scale, case.values.y_zero_point), relu)


@given(case=convs(2), relu=st.booleans())
def test_any_convolution(case: ConvCase, relu: bool) -> None:
    check_conv(_with_full_range(case), relu)


@given(case=linears(), relu=st.booleans())
def test_any_linear(case: LinearCase, relu: bool) -> None:
    case = LinearCase(
        case.lead, case.features_in, case.features_out, case.layout, _full_range(case.values)
    )
    op = Q.linear_relu if relu else Q.linear
    check(case, lambda scale: op(case.x, pack_linear(case), scale, case.values.y_zero_point), relu)


@given(
    channels=st.integers(1, 140),
    kernel=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    stride=st.sampled_from([(1, 1), (2, 2), (1, 2), (3, 1)]),
    dilation=st.sampled_from([(1, 1), (2, 2), (1, 3)]),
    padding=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    zero_points=st.tuples(st.integers(0, 255), st.integers(0, 255)),
    seed=st.integers(0, 999),
)
def test_any_depthwise(
    channels: int,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    padding: tuple[int, int],
    zero_points: tuple[int, int],
    seed: int,
) -> None:
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    image = tuple(max(1, s - 2 * p) + seed % 7 for s, p in zip(spans, padding, strict=True))
    geometry = Geometry(stride, padding, dilation, channels)
    values = FullRange(seed, *zero_points, per_channel=seed % 2 == 0)
    check_conv(ConvCase(2, channels, channels, kernel, image, geometry, "channels_last", values))


STEMS_AND_GROUPS = {
    "stem 3x3": (3, 32, (3, 3), 2, 1, 1),
    "stem 7x7": (3, 64, (7, 7), 2, 3, 1),
    "stem of one channel": (1, 16, (5, 5), 2, 2, 1),
    "resnext": (64, 64, (3, 3), 1, 1, 16),
    "regnet": (48, 48, (3, 3), 2, 1, 6),
    "shufflenet": (58, 58, (1, 1), 1, 0, 1),
    "squeeze and excite": (96, 4, (1, 1), 1, 0, 1),
    "odd groups": (35, 21, (3, 3), 1, 1, 7),
}


@pytest.mark.parametrize("name", STEMS_AND_GROUPS)
@pytest.mark.parametrize("per_channel", [True, False])
def test_stems_and_groups(name: str, per_channel: bool) -> None:
    channels_in, channels_out, kernel, stride, padding, groups = STEMS_AND_GROUPS[name]
    geometry = Geometry((stride,) * 2, (padding,) * 2, (1, 1), groups)
    values = FullRange(5, 131, 17, per_channel)
    case = ConvCase(
        2, channels_in, channels_out, kernel, (17, 19), geometry, "channels_last", values
    )
    check_conv(case, relu=True)


def _with_full_range(case: ConvCase) -> ConvCase:
    return ConvCase(
        case.batch,
        case.channels_in,
        case.channels_out,
        case.kernel,
        case.image,
        case.geometry,
        case.layout,
        _full_range(case.values),
    )


@pytest.mark.parametrize("wide", [False, True])
def test_weights_with_zero_points(wide: bool) -> None:
    """If they fit int8 minus their zero points, they are exact; otherwise another provider runs."""
    values = Values(7, 9, 3, per_channel=True, symmetric=False, wide=wide)
    geometry = Geometry((1, 1), (1, 1), (1, 1), 24)
    case = ConvCase(1, 24, 24, (3, 3), (8, 8), geometry, "channels_last", values)
    real = real_of(case)
    scale = values.output_scale(real)
    with running("cpuaccel"), counted() as counts:
        result = Q.conv2d(case.x, pack_conv(case), scale, 3)
    assert_quantum(result, requantize(real, scale, 3))
    assert ("conv2d.cpuaccel" in counts.calls) == wide, counts.calls


@pytest.mark.parametrize("provider", ["auto", "cpuaccel", "fbgemm", "onednn"])
def test_sums_that_could_leave_int32_run_in_float(provider: str) -> None:
    """255 * 128 * 66000 exceeds int32."""
    features, why = 66000, "sums could overflow int32; computed in float"
    integers = torch.full((2, features), -128, dtype=torch.int8)
    weight = torch._make_per_tensor_quantized_tensor(integers, 1e-4, 0)
    image_weight = torch._make_per_tensor_quantized_tensor(integers.view(2, -1, 1, 2), 1e-4, 0)
    x = torch._make_per_tensor_quantized_tensor(
        torch.full((1, features), 255, dtype=torch.uint8), 1e-2, 0
    )
    real = -255 * 128 * features * 1e-6
    with running(provider), counted() as counts:
        packed = Q.linear_prepack(weight, None)
        conv = Q.conv2d_prepack(image_weight, None, [1, 1], [0, 0], [1, 1], 1)
        results = [
            Q.linear(x, packed, 10.0, 255),
            Q.conv2d(x.view(1, -1, 1, 2), conv, 10.0, 255),
            torch.ops.cpuaccel.linear_table(
                x, packed, 10.0, 255, False, torch.arange(256, dtype=torch.uint8), 10.0, 255
            ),
        ]
        dynamic = Q.linear_dynamic(x.dequantize(), packed)
    assert {name.rpartition(": ")[2] for name in counts.fallbacks} == {why}
    assert not counts.ours()
    for result in results:
        assert (result.int_repr() - (255 + round(real / 10))).abs().max() <= 1
    assert torch.allclose(dynamic, torch.full((1, 2), real), rtol=1e-2)
