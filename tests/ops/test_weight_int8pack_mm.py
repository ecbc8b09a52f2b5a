"""torch._weight_int8pack_mm: right where torch's kernel is wrong or ends the process."""

from __future__ import annotations

import pytest
import torch
from _settings import setting
from quant._engine import counted, needs_plugin
from torch import Tensor

pytestmark = needs_plugin

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def _operands(M: int, N: int, K: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    weight = torch.randint(-128, 128, (N, K), dtype=torch.int8)
    return torch.randn(M, K).to(dtype), weight, torch.rand(N).to(dtype)


def _assert_right(x: Tensor, weight: Tensor, scales: Tensor) -> None:
    with counted() as counts:
        result = torch._weight_int8pack_mm(x, weight, scales)
    assert not counts.fallbacks
    expected = x.double() @ weight.double().T * scales.double()
    terms = x.double().abs() @ weight.double().abs().T * scales.double()
    allowed = 1e-5 * terms + 2 * torch.finfo(x.dtype).eps * expected.abs()
    assert result.dtype == x.dtype
    assert ((result.double() - expected).abs() <= allowed).all()


@pytest.mark.parametrize("dtype", _DTYPES, ids=str)
@pytest.mark.parametrize("M", [1, 2, 3, 40])
def test_every_depth(dtype: torch.dtype, M: int) -> None:
    """With K = 100 and 3 rows torch's result is off by a quarter; other K end the process."""
    for K in (1, 15, 16, 17, 31, 100, 128):
        for N in (1, 16, 33):
            _assert_right(*_operands(M, N, K, dtype))


def test_rows_at_any_address() -> None:
    """torch reads bf16 rows by aligned loads of 32 bytes."""
    _, weight, scales = _operands(1, 32, 64, torch.bfloat16)
    memory = torch.randn(70 * 64 + 64).bfloat16()
    for offset in (1, 3, 8, 15):
        _assert_right(memory[offset : offset + 192].reshape(3, 64), weight, scales)
        _assert_right(memory[offset : offset + 66 * 60].reshape(60, 66)[:, :64], weight, scales)


@pytest.mark.parametrize("isa", ["avx2", "ref"])
def test_lesser_isas(isa: str) -> None:
    with setting("max_isa", isa):
        for dtype in _DTYPES:
            x, weight, scales = _operands(5, 33, 100, dtype)
            result = torch._weight_int8pack_mm(x, weight, scales).double()
            expected = x.double() @ weight.double().T * scales.double()
            tolerance = 4 * torch.finfo(dtype).eps * float(expected.abs().max())
            assert (result - expected).abs().max() <= tolerance


def test_f16_does_not_overflow_before_the_scale() -> None:
    x = torch.full((2, 512), 100.0).half()
    weight = torch.full((16, 512), 127, dtype=torch.int8)
    scales = torch.full((16,), 1e-3).half()
    expected = 512 * 100 * 127 * float(scales[0])
    assert (torch._weight_int8pack_mm(x, weight, scales).double() / expected - 1).abs().max() < 1e-3
