"""cpuaccel::intx_linear: weights of 4 and 8 bits with scales for groups."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from _settings import setting
from quant._engine import counted, needs_plugin
from torch import Tensor

from cpuaccel import _native

pytestmark = needs_plugin

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_ZEROS = ("none", "zeros", "integers", "floats")


def _op() -> Any:
    from cpuaccel._ops import intx_linear as _fake_kernel  # noqa: F401

    return torch.ops.cpuaccel.intx_linear


def _weight(
    N: int, K: int, group: int, bits: int, zeros: str, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor | None]:
    low, high = (-8, 8) if bits == 4 else (-128, 128)
    codes = torch.randint(low, high, (N, K), dtype=torch.int8)
    shape = (N, K // group)
    zero_point = {
        "none": None,
        "zeros": torch.zeros(shape, dtype=torch.int8),
        "integers": torch.randint(low, high, shape, dtype=torch.int8),
        "floats": torch.randn(shape).to(dtype),
    }[zeros]
    return codes, torch.rand(shape).to(dtype) + 0.1, zero_point


def _dequantized(codes: Tensor, scale: Tensor, zero_point: Tensor | None) -> Tensor:
    group = codes.shape[1] // scale.shape[1]
    wide = [
        None if t is None else t.double().repeat_interleave(group, 1) for t in (scale, zero_point)
    ]
    return (codes.double() - (0 if wide[1] is None else wide[1])) * wide[0]


def _quantized_rows(x: Tensor) -> Tensor:
    """torchao's rounding: asymmetric, a scale and a zero point for each row."""
    rows = x.float()
    least, most = rows.amin(-1, True).clamp_max(0), rows.amax(-1, True).clamp_min(0)
    scale = (((most - least).to(x.dtype).float() / 255).to(x.dtype).float()).clamp_min(2**-23)
    zero = (-128 - (least / scale).to(x.dtype).float().round()).clamp(-128, 127)
    q = ((rows * (1 / scale)).round() + zero).clamp(-128, 127)
    return (q - zero).double() * scale.double()


def _assert_right(
    x: Tensor, weight: tuple[Tensor, Tensor, Tensor | None], bias: Tensor | None, bits: int,
    quantize: bool,
) -> None:  # fmt: skip
    with counted() as counts:
        result = _op()(x, *weight, bias, bits, quantize)
    assert not counts.fallbacks
    rows = _quantized_rows(x) if quantize else x.double()
    dense = _dequantized(*weight)
    expected = rows @ dense.T + (0 if bias is None else bias.double())
    center = 16 if bits == 4 else 256
    terms = rows.abs() @ (dense.abs() + center * dense.abs().amax(1, True) / 8).T
    allowed = 1e-5 * terms + 2 * torch.finfo(x.dtype).eps * expected.abs() + 1e-6
    if not quantize and x.dtype == torch.bfloat16 and _native.load().has_bf16_arithmetic():
        allowed += 2**-8 * (rows.abs() @ dense.abs().T)  # many rows: weights are rounded to bf16
    assert result.dtype == x.dtype
    assert result.shape == expected.shape
    assert ((result.double() - expected).abs() <= allowed).all()


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", _ZEROS)
@pytest.mark.parametrize("quantize", [False, True], ids=["floats", "int8"])
def test_formats(bits: int, zeros: str, quantize: bool) -> None:
    for dtype in _DTYPES:
        for group in (32, 8, 128):
            weight = _weight(70, 128, group, bits, zeros, dtype)
            for M in (1, 5, 40):
                x = torch.randn(M, 128).to(dtype)
                _assert_right(x, weight, torch.randn(70).to(dtype), bits, quantize)


@pytest.mark.parametrize("quantize", [False, True], ids=["floats", "int8"])
def test_shapes_and_strides(quantize: bool) -> None:
    weight = _weight(33, 64, 32, 4, "integers")
    for x in (
        torch.randn(64),
        torch.randn(2, 3, 64),
        torch.randn(64, 9).t(),
        torch.randn(2, 5, 3, 64)[:, ::2],
        torch.randn(0, 64),
    ):
        _assert_right(x, weight, None, 4, quantize)


@pytest.mark.parametrize("isa", ["avx2", "ref"])
def test_lesser_isas(isa: str) -> None:
    with setting("max_isa", isa):
        for bits in (4, 8):
            for quantize in (False, True):
                weight = _weight(40, 64, 32, bits, "integers")
                _assert_right(torch.randn(3, 64), weight, None, bits, quantize)


def test_one_group_of_any_size() -> None:
    for K in (1, 7, 100):
        for bits in (4, 8):
            _assert_right(torch.randn(3, K), _weight(20, K, K, bits, "none"), None, bits, False)


def test_gradient_of_the_input_is_that_of_the_dequantized_weight() -> None:
    weight, x = _weight(24, 64, 32, 4, "integers"), torch.randn(5, 64, requires_grad=True)
    for quantize in (False, True):
        (grad,) = torch.autograd.grad(_op()(x, *weight, None, 4, quantize).sum(), x)
        expected = _dequantized(*weight).sum(0).float().expand(5, -1)
        torch.testing.assert_close(grad, expected, rtol=1e-4, atol=1e-4)


def test_a_changed_part_is_noticed() -> None:
    codes, scale, zero_point = weight = _weight(32, 64, 32, 4, "integers")
    x = torch.randn(2, 64)
    _assert_right(x, weight, None, 4, False)
    for part in (scale, zero_point, codes):
        assert part is not None
        part.copy_(part.flip(0))
        _assert_right(x, weight, None, 4, False)


def test_codes_out_of_range_are_torchs() -> None:
    codes, scale, _ = _weight(16, 32, 32, 8, "none")
    codes[0, 0] = 100
    with counted() as counts:
        result = _op()(torch.eye(32), codes, scale, None, None, 4, False)
    assert "a code or a zero point out of range" in str(counts.fallbacks)
    torch.testing.assert_close(result, _dequantized(codes, scale, None).T.float())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bits": 3}, "bits to be 4 or 8, but got 3"),
        ({"codes": torch.zeros(4, 32)}, "codes to be an int8 matrix"),
        ({"input": torch.zeros(2, 31)}, "a last dimension of 32"),
        ({"scale": torch.ones(4, 5)}, "groups divides 32"),
        ({"zero_point": torch.ones(4, 2)}, "the shape of scale"),
        ({"bias": torch.ones(5)}, "a vector of 4 elements"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_bad_arguments(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "input": torch.zeros(2, 32),
        "codes": torch.zeros(4, 32, dtype=torch.int8),
        "scale": torch.ones(4, 1),
        "zero_point": None,
        "bias": None,
        "bits": 4,
        "quantize": False,
    }
    with pytest.raises(RuntimeError, match=message):
        _op()(**(arguments | change))
