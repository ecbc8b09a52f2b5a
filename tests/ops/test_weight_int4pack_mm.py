"""torch._weight_int4pack_mm_for_cpu: torch's packed bytes, on cpuaccel's kernels."""

from __future__ import annotations

import pytest
import torch
from _process import run_python
from _settings import setting
from quant._engine import counted, needs_plugin
from torch import Tensor

from cpuaccel import _native

pytestmark = needs_plugin

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def _operands(M: int, N: int, K: int, group: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
    codes = torch.randint(0, 16, (N, K), dtype=torch.int32)
    return torch.randn(M, K).to(dtype), codes, torch.randn(K // group, N, 2).to(dtype)


def _assert_right(x: Tensor, codes: Tensor, group: int, scales: Tensor) -> None:
    packed = torch._convert_weight_to_int4pack_for_cpu(codes, 1)
    with counted() as counts:
        result = torch._weight_int4pack_mm_for_cpu(x, packed, group, scales)
    assert not counts.fallbacks
    scale, zero = (each.T.double().repeat_interleave(group, 1) for each in scales.unbind(-1))
    weight = (codes.double() - 8) * scale + zero
    expected = x.double() @ weight.T
    terms = x.double().abs() @ ((codes.double() + 8) * scale.abs() + zero.abs()).T
    allowed = 1e-5 * terms + 2 * torch.finfo(x.dtype).eps * expected.abs()
    if x.dtype == torch.bfloat16 and _native.load().has_bf16_arithmetic():
        allowed += 2**-8 * (x.double().abs() @ weight.abs().T)  # many rows: weights are rounded
    assert result.dtype == x.dtype
    assert ((result.double() - expected).abs() <= allowed).all()


@pytest.mark.parametrize("dtype", _DTYPES, ids=str)
@pytest.mark.parametrize("group", [32, 64, 128, 256])
def test_every_block_of_columns(dtype: torch.dtype, group: int) -> None:
    """torch packs blocks of 64 or 32 columns, and what is left over in another way."""
    for N in (16, 32, 48, 64, 80, 112, 192):
        for M in (1, 2, 7, 20):
            x, codes, scales = _operands(M, N, 256, group, dtype)
            _assert_right(x, codes, group, scales)


def test_rows_of_any_strides() -> None:
    x, codes, scales = _operands(9, 48, 128, 32, torch.float32)
    _assert_right(torch.randn(128, 9).t(), codes, 32, scales)
    _assert_right(torch.randn(9, 200)[:, 3:131], codes, 32, scales)
    _assert_right(x[::2], codes, 32, scales.transpose(0, 1).contiguous().transpose(0, 1))


@pytest.mark.parametrize("isa", ["avx2", "ref"])
def test_lesser_isas(isa: str) -> None:
    with setting("max_isa", isa):
        for M in (1, 30):
            x, codes, scales = _operands(M, 48, 128, 64, torch.bfloat16)
            _assert_right(x, codes, 64, scales)


@pytest.mark.parametrize("capability", ["default", "avx2"])
def test_what_torch_packs_for_other_instructions(capability: str) -> None:
    """The bytes depend on ATEN_CPU_CAPABILITY."""
    code = """
import torch, cpuaccel
codes = torch.arange(80 * 64, dtype=torch.int32).reshape(80, 64) * 11 % 16
packed = torch._convert_weight_to_int4pack_for_cpu(codes, 1)
x, scales = torch.randn(3, 64), torch.randn(2, 80, 2)
on = torch._weight_int4pack_mm_for_cpu(x, packed, 32, scales)
assert cpuaccel.stats()["calls"] == {"packed_linear.cpuaccel": 1}, cpuaccel.stats()
cpuaccel.disable()
off = torch._weight_int4pack_mm_for_cpu(x, packed, 32, scales)
print(float((on - off).abs().max() / off.abs().max()))
"""
    assert float(run_python(code, ATEN_CPU_CAPABILITY=capability)) < 1e-5


def test_a_changed_scale_is_noticed() -> None:
    x, codes, scales = _operands(2, 32, 64, 32, torch.float32)
    _assert_right(x, codes, 32, scales)
    scales.mul_(2)
    _assert_right(x, codes, 32, scales)


def test_scales_that_torch_would_read_past_the_end() -> None:
    x, codes, scales = _operands(2, 32, 128, 32, torch.float32)
    packed = torch._convert_weight_to_int4pack_for_cpu(codes, 1)
    with pytest.raises(RuntimeError, match="a row for each 32 of the 128 columns"):
        torch._weight_int4pack_mm_for_cpu(x, packed, 32, scales[:2])
    with pytest.raises(RuntimeError, match="of the type of self, Float"):
        torch._weight_int4pack_mm_for_cpu(x, packed, 32, scales.bfloat16())
