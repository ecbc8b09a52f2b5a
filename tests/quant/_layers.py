"""Packs and runs a drawn case by the ops that torch's quantized modules call."""

from __future__ import annotations

import pytest
import torch
from _reference import Geometry, conv_real, linear_real
from _strategies import ConvCase, LinearCase
from torch import Tensor

Q = torch.ops.quantized


def pack_linear(case: LinearCase):
    return Q.linear_prepack(case.weight, case.bias)


def pack_conv(case: ConvCase):
    return pack_conv_tensors(case.weight, case.bias, case.geometry)


def pack_conv_tensors(weight: Tensor, bias: Tensor | None, geometry: Geometry):
    dims = weight.dim() - 2
    lists = [list(geometry.stride), list(geometry.padding)]
    if geometry.transposed:
        lists.append(list(geometry.output_padding) or [0] * dims)
    op = f"conv_transpose{dims}d_prepack" if geometry.transposed else f"conv{dims}d_prepack"
    return getattr(Q, op)(weight, bias, *lists, list(geometry.dilation), geometry.groups)


def conv_op(case: ConvCase, suffix: str = ""):
    """The op of the case: quantized::conv2d, quantized::conv_transpose1d_dynamic, ..."""
    kind = "conv_transpose" if case.geometry.transposed else "conv"
    return getattr(Q, f"{kind}{len(case.kernel)}d{suffix}")


def counted_name(case: ConvCase) -> str:
    """The op's name in `cpuaccel.stats()`; one dimension runs as two."""
    kind = "conv_transpose" if case.geometry.transposed else "conv"
    return f"{kind}{max(2, len(case.kernel))}d"


def real_of(case: LinearCase | ConvCase) -> Tensor:
    """The float64 result of the case, before any activation and before quantization."""
    if isinstance(case, LinearCase):
        return linear_real(case.x, case.weight, case.bias)
    return conv_real(case.x, case.weight, case.bias, case.geometry)


def assert_same_weight(actual: Tensor, expected: Tensor) -> None:
    """The integers are equal, and the scales equal in float32, in which torch stores them."""
    assert actual.qscheme() == expected.qscheme()
    assert torch.equal(actual.int_repr(), expected.int_repr())
    if expected.qscheme() == torch.per_tensor_affine:
        assert actual.q_zero_point() == expected.q_zero_point()
        assert actual.q_scale() == pytest.approx(expected.q_scale(), rel=1e-6)
        return
    assert torch.equal(actual.q_per_channel_zero_points(), expected.q_per_channel_zero_points())
    torch.testing.assert_close(
        actual.q_per_channel_scales(), expected.q_per_channel_scales(), rtol=1e-6, atol=0.0
    )
