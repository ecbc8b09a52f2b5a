"""Static quantized::conv1d, conv2d, conv3d and their relu forms."""

from __future__ import annotations

import pytest
import torch
from _reference import Geometry, assert_agree, assert_quantum, conv_real, requantize
from _strategies import ConvCase, Values, convs, output_image
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from quant._engine import INTREE, assert_ran, backends, counted, ours, running
from quant._layers import Q, assert_same_weight, conv_op, counted_name, pack_conv, real_of
from quant._torch_faults import fbgemm_convolves_wrongly, running_conv, torch_was_wrong

dims = pytest.mark.parametrize("dims", [1, 2, 3], ids=["1d", "2d", "3d"])


def _run(case: ConvCase, relu: bool, scale: float) -> Tensor:
    return conv_op(case, "_relu" if relu else "")(
        case.x, pack_conv(case), scale, case.values.y_zero_point
    )


def check(backend: str, case: ConvCase, relu: bool = False) -> None:
    """Checks the case on `backend` against the reference, and against torch's own kernels."""
    comparable = not fbgemm_convolves_wrongly(case)
    if backend == INTREE and not comparable:
        return
    real = real_of(case)
    if relu:
        real = real.clamp(min=0)
    scale = case.values.output_scale(real)
    with running_conv(backend, case), counted() as counts:
        actual = _run(case, relu, scale)
    assert actual.shape == (case.batch, case.channels_out, *output_image(case))
    if case.batch:
        assert_ran(counts, counted_name(case), backend)
    if torch_was_wrong(backend, counts):
        return
    assert_quantum(actual, requantize(real, scale, case.values.y_zero_point))
    if backend != INTREE and comparable:
        with running_conv(INTREE, case):
            other = _run(case, relu, scale)
        assert_agree(actual, other)
        assert actual.stride() == other.stride()


@backends
@dims
@given(data=st.data(), relu=st.booleans())
def test_matches_the_reference_and_torch(
    backend: str, dims: int, data: st.DataObject, relu: bool
) -> None:
    check(backend, data.draw(convs(dims)), relu)


def _case(
    channels: tuple[int, int] = (16, 24),
    kernel: tuple[int, int] = (3, 3),
    stride: int = 1,
    padding: int = 1,
    dilation: int = 1,
    groups: int = 1,
    image: tuple[int, int] = (9, 10),
    values: Values | None = None,
) -> ConvCase:
    geometry = Geometry((stride,) * 2, (padding,) * 2, (dilation,) * 2, groups)
    drawn = values or Values(x_zero_point=9, y_zero_point=3, per_channel=True)
    return ConvCase(2, *channels, kernel, image, geometry, "channels_last", drawn)


_NAMED = {
    "pointwise": _case(kernel=(1, 1), padding=0),
    "pointwise strided": _case(kernel=(1, 1), padding=0, stride=2),
    "stem": _case((3, 32), (7, 7), stride=2, padding=3, image=(20, 20)),
    "depthwise 3x3": _case((32, 32), groups=32),
    "depthwise 5x5 strided": _case((40, 40), (5, 5), stride=2, padding=2, groups=40),
    # oneDNN 3.2.0 on AVX2 computes depthwise kernels of eight weights wrong if the input has a zero
    # point and the channels are a multiple of eight.
    "depthwise 2x4": _case((32, 32), (2, 4), groups=32),
    "depthwise row of eight": _case((16, 16), (1, 8), groups=16, padding=0),
    "depthwise 4x4": _case((32, 32), (4, 4), groups=32),
    "depthwise of 58 channels": _case((58, 58), groups=58),
    "many groups": _case((120, 120), groups=120, kernel=(3, 1)),
    "groups of four": _case((32, 64), groups=8),
    "dilated and grouped": _case((16, 16), dilation=2, padding=2, groups=4),
    "dilated depthwise": _case((16, 16), dilation=2, padding=2, groups=16),
    "kernel as large as the image": _case(kernel=(9, 10), padding=0),
    "padding beyond the kernel": _case(kernel=(2, 2), padding=4),
    "one by one image": _case(image=(1, 1)),
    "odd channels": _case((13, 7)),
    "one channel": _case((1, 1)),
    "weights not symmetric": _case(values=Values(x_zero_point=9, symmetric=False)),
    "weights not symmetric, per channel": _case(
        values=Values(x_zero_point=9, symmetric=False, per_channel=True)
    ),
    "no bias": _case(values=Values(bias=False)),
    "wide activations": _case(values=Values(x_zero_point=200, wide=True)),
}


@backends
@pytest.mark.parametrize("name", _NAMED)
def test_named_shape(backend: str, name: str) -> None:
    check(backend, _NAMED[name], relu=True)


@backends
@dims
def test_empty_batch(backend: str, dims: int) -> None:
    geometry = Geometry((1,) * dims, (1,) * dims, (1,) * dims)
    case = ConvCase(0, 4, 8, (3,) * dims, (5,) * dims, geometry, "contiguous", Values())
    check(backend, case)


@ours
def test_one_packed_object_serves_every_image_and_scale(backend: str) -> None:
    case = _case((8, 12))
    with running(backend):
        packed = pack_conv(case)
        for image, scale in [((5, 5), 0.31), ((9, 7), 0.31), ((5, 5), 0.17), ((16, 3), 0.31)]:
            x = case.values.activation((2, 8, *image), "contiguous", stream=image[0])
            real = conv_real(x, case.weight, case.bias, case.geometry)
            assert_quantum(Q.conv2d(x, packed, scale, 60), requantize(real, scale, 60))


@ours
def test_twice_the_same_input_is_bitwise_the_same(backend: str) -> None:
    case = _case()
    with running(backend):
        packed = pack_conv(case)
        first = Q.conv2d(case.x, packed, 0.3, 4)
        assert all(torch.equal(first, Q.conv2d(case.x, packed, 0.3, 4)) for _ in range(3))


@backends
@dims
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_unpack_gives_everything_back(backend: str, dims: int, groups: int) -> None:
    geometry = Geometry((2,) * dims, (1,) * dims, (2,) * dims, groups)
    values = Values(seed=2, per_channel=True, symmetric=False)
    case = ConvCase(1, 4, 8, (3,) * dims, (9,) * dims, geometry, "contiguous", values)
    with running(backend):
        packed = pack_conv(case)
        unpack = Q.conv_unpack if dims == 2 else getattr(Q, f"conv{dims}d_unpack")
        weight, bias = unpack(packed)
        assert_same_weight(weight, case.weight)
        assert torch.equal(bias, case.bias)
        seen = max(dims, 2)
        assert _ints(getattr(Q, f"conv{seen}d_stride")(packed))[-dims:] == [2] * dims
        assert _ints(getattr(Q, f"conv{seen}d_padding")(packed))[-dims:] == [1] * dims
        assert _ints(getattr(Q, f"conv{seen}d_dilation")(packed))[-dims:] == [2] * dims
        assert _ints(getattr(Q, f"conv{seen}d_output_padding")(packed)) == [0] * seen
        assert getattr(Q, f"conv{seen}d_groups")(packed) == groups
        assert getattr(Q, f"conv{seen}d_transpose")(packed) == 0


@backends
def test_a_bias_changed_in_place_is_seen(backend: str) -> None:
    """Bias correction relies on it: torch keeps a reference to the given tensor, not a copy."""
    bias = torch.zeros(12)
    case = _case((8, 12))
    with running(backend):
        packed = Q.conv2d_prepack(case.weight, bias, [1, 1], [1, 1], [1, 1], 1)
        Q.conv2d(case.x, packed, 0.4, 100)
        bias += 5
        actual = Q.conv2d(case.x, packed, 0.4, 100)
    real = conv_real(case.x, case.weight, bias, case.geometry)
    assert_quantum(actual, requantize(real, 0.4, 100))


def _ints(values) -> list[int]:
    return [int(v) for v in values]
