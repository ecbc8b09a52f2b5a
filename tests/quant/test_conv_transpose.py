"""Static quantized::conv_transpose1d, 2d and 3d."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from _reference import Geometry, assert_quantum, requantize
from _strategies import ConvCase, Values, convs
from hypothesis import given
from hypothesis import strategies as st

from quant._engine import backends, ours, running
from quant._layers import Q, assert_same_weight, pack_conv, real_of
from quant._torch_faults import onednn_convolves_wrongly
from quant.test_conv import check, dims


@backends
@dims
@given(data=st.data())
def test_matches_the_reference_and_torch(backend: str, dims: int, data: st.DataObject) -> None:
    check(backend, data.draw(convs(dims, transposed=True)))


def _case(
    channels: tuple[int, int] = (6, 8),
    kernel: int = 3,
    stride: int = 2,
    padding: int = 1,
    output_padding: int = 0,
    groups: int = 1,
    batch: int = 2,
    symmetric: bool = True,
) -> ConvCase:
    geometry = Geometry(
        (stride,) * 2, (padding,) * 2, (1, 1), groups, (output_padding,) * 2, transposed=True
    )
    values = Values(seed=1, x_zero_point=11, y_zero_point=4, symmetric=symmetric)
    return ConvCase(batch, *channels, (kernel,) * 2, (5, 6), geometry, "contiguous", values)


_NAMED = {
    "upsampling by two": _case(kernel=2, padding=0),
    # FBGEMM has a kernel for these; torch's results are wrong.
    "upsampling by two, channels in eights": _case((8, 16), kernel=2, padding=0),
    "upsampling one image": _case((16, 8), kernel=2, padding=0, batch=1),
    "two by two, overlapping": _case((16, 8), kernel=2, stride=1, padding=0),
    "upsampling nothing": _case((16, 8), kernel=2, padding=0, batch=0),
    "four by four": _case((16, 16), kernel=4),
    "output padding": _case(output_padding=1),
    "output padding beyond the stride": _case(output_padding=3),
    "stride beyond the kernel": _case(kernel=1, stride=3, padding=0),
    "grouped": _case((8, 16), groups=4),
    "depthwise": _case((8, 8), groups=8),
    "weights not symmetric": _case(symmetric=False),
    "empty batch": _case(batch=0),
}


@backends
@pytest.mark.parametrize("name", _NAMED)
def test_named_shape(backend: str, name: str) -> None:
    check(backend, _NAMED[name])


@ours
def test_one_packed_object_serves_every_image(backend: str) -> None:
    case = _case((16, 8), kernel=2, padding=0)
    if backend == "cpuaccel" and onednn_convolves_wrongly():
        pytest.skip("torch.cpu._is_vnni_supported(): torch runs these, and is wrong")
    with running(backend):
        packed = pack_conv(case)
        for image in ((5, 6), (3, 2), (9, 9), (5, 6)):
            of_this_size = replace(case, image=image)
            real = real_of(of_this_size)
            scale = case.values.output_scale(real)
            actual = Q.conv_transpose2d(of_this_size.x, packed, scale, 4)
            assert_quantum(actual, requantize(real, scale, 4))


@backends
@dims
def test_unpack_gives_everything_back(backend: str, dims: int) -> None:
    geometry = Geometry((2,) * dims, (1,) * dims, (1,) * dims, 2, (1,) * dims, transposed=True)
    case = ConvCase(1, 4, 8, (3,) * dims, (4,) * dims, geometry, "contiguous", Values(seed=2))
    with running(backend):
        packed = pack_conv(case)
        weight, bias = getattr(Q, f"conv_transpose{dims}d_unpack")(packed)
        seen = max(dims, 2)
        output_padding = getattr(Q, f"conv_transpose{seen}d_output_padding")(packed)
        assert getattr(Q, f"conv_transpose{seen}d_transpose")(packed) == 1
    assert_same_weight(weight, case.weight)
    assert torch.equal(bias, case.bias)
    assert [int(v) for v in output_padding][-dims:] == [1] * dims
