"""IntxLinear: a linear layer that holds its weight packed."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from quant._engine import counted, needs_plugin

pytestmark = needs_plugin


def _class() -> Any:
    from cpuaccel.quant.intx_linear import IntxLinear

    return IntxLinear


def _parts(N: int, K: int, groups: int, bits: int) -> tuple[Tensor, Tensor, Tensor]:
    low, high = (-8, 8) if bits == 4 else (-128, 128)
    codes = torch.randint(low, high, (N, K), dtype=torch.int8)
    zeros = torch.randint(low, high, (N, groups), dtype=torch.int8)
    return codes, torch.rand(N, groups) + 0.1, zeros


def _weight(codes: Tensor, scale: Tensor, zeros: Tensor) -> Tensor:
    group = codes.shape[1] // scale.shape[1]
    wide = (each.float().repeat_interleave(group, 1) for each in (scale, zeros))
    scale, zeros = wide
    return (codes.float() - zeros) * scale


@given(
    st.integers(1, 70), st.integers(1, 6), st.sampled_from([8, 16, 40]), st.sampled_from([4, 8]),
    st.sampled_from(["none", "integers", "floats"]), st.booleans(),
)  # fmt: skip
def test_weights_come_back_bit_for_bit(
    N: int, groups: int, group: int, bits: int, zeros_kind: str, ordered: bool
) -> None:
    K = groups * group
    codes, scale, zeros = _parts(N, K, groups, bits)
    zeros = zeros * 0 if zeros_kind == "none" else zeros
    given_zeros = {"none": None, "integers": zeros, "floats": zeros.float()}[zeros_kind]
    order = torch.randperm(K) if ordered else None
    layer = _class().from_codes(codes, scale, given_zeros, bits=bits, order=order)
    assert (layer.out_features, layer.in_features) == (N, K)
    assert (layer.bits, layer.group_size) == (bits, group)
    expected = _weight(codes, scale, zeros)
    if order is not None:
        expected = expected[:, order.argsort()]
    if zeros_kind == "floats":  # code * scale - zero * scale
        assert_close(layer.dequantize(), expected, rtol=1e-5, atol=1e-4)
    else:
        assert torch.equal(layer.dequantize(), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@torch.no_grad()
def test_dtypes_and_shapes(dtype: torch.dtype) -> None:
    codes, scale, zeros = _parts(50, 64, 2, 4)
    layer = _class().from_codes(codes, scale, zeros, torch.randn(50), bits=4)
    weight = _weight(codes, scale, zeros)
    for shape in ((64,), (1, 64), (2, 9, 64), (40, 64), (0, 64)):
        x = torch.randn(shape).to(dtype)
        with counted() as counts:
            result = layer(x)
        assert counts.calls.get("packed_linear.cpuaccel", 0) == (dtype != torch.float64)
        expected = torch.nn.functional.linear(x.double(), weight.double(), layer.bias.double())
        assert result.dtype == dtype
        bound = (
            8 * max(torch.finfo(dtype).eps, 1e-6) * float(expected.abs().amax() if len(x) else 0)
        )
        assert_close(result.double(), expected, rtol=0, atol=bound)


@torch.no_grad()
def test_strides_and_vmap() -> None:
    codes, scale, zeros = _parts(40, 64, 2, 8)
    layer = _class().from_codes(codes, scale, zeros, bits=8)
    x = torch.randn(64, 6).t()
    assert torch.equal(layer(x), layer(x.contiguous()))
    assert_close(torch.vmap(layer)(x), layer(x), rtol=1e-4, atol=1e-3)
    assert torch.equal(pickle.loads(pickle.dumps(layer))(x), layer(x))


def test_gradients() -> None:
    codes, scale, zeros = _parts(24, 32, 2, 4)
    layer = _class().from_codes(codes, scale, zeros, torch.randn(24), bits=4)
    layer.bias.requires_grad_()
    x = torch.randn(3, 32, requires_grad=True)
    with counted() as counts:
        result = layer(x)
    assert counts.calls["packed_linear.cpuaccel"] == 1
    grad = torch.randn(3, 24)
    result.backward(grad)
    assert_close(x.grad, grad @ _weight(codes, scale, zeros), rtol=1e-4, atol=1e-4)
    assert_close(layer.bias.grad, grad.sum(0))
    _, tangent = torch.func.jvp(layer, (x.detach(),), (torch.ones(3, 32),))
    assert_close(tangent, _weight(codes, scale, zeros).sum(1).expand(3, 24), rtol=1e-4, atol=1e-4)


def test_errors() -> None:
    cls, (codes, scale, zeros) = _class(), _parts(24, 32, 2, 4)
    layer = cls.from_codes(codes, scale, zeros, bits=4)
    x = torch.randn(2, 32)
    for message, call in {
        "packed to be the vector": lambda: cls(torch.zeros(3)),
        "expected bits to be 4 or 8, but got 5": lambda: cls.from_codes(codes, scale, bits=5),
        "a code or a zero point is not of 4 bits": lambda: cls.from_codes(codes * 2, scale, bits=4),
        "expected groups of a multiple of 8": lambda: cls.from_codes(
            codes, scale.repeat(1, 4)[:, :8], bits=4
        ),
        "expected zero_point to have the shape": lambda: cls.from_codes(
            codes, scale, zeros[:, :1], bits=4
        ),
        "last dimension of 32": lambda: layer(x[:, :31]),
        "expected bias to be a vector of 24": lambda: torch.ops.cpuaccel.packed_intx_linear(
            x, layer.packed, torch.zeros(3), 24, False
        ),
        "packed has 24 rows, but out_features is 25": (
            lambda: torch.ops.cpuaccel.packed_intx_linear(x, layer.packed, None, 25, False)
        ),
        "is not what pack_intx returned": lambda: torch.ops.cpuaccel.packed_intx_linear(
            x, layer.packed[:-1], None, 24, False
        ),
        "no header of packed weights": lambda: torch.ops.cpuaccel.packed_intx_linear(
            x, torch.zeros(500, dtype=torch.uint8), None, 24, False
        ),
    }.items():
        with pytest.raises((RuntimeError, ValueError), match=message):
            call()
