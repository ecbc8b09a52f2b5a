"""torch._int_mm on x86: exact, whatever the strides of the operands."""

from __future__ import annotations

import itertools

import pytest
import torch
from _settings import setting
from quant._engine import needs_plugin
from torch import Tensor

pytestmark = needs_plugin


def _operands(M: int, K: int, N: int) -> tuple[Tensor, Tensor]:
    a = torch.randint(-128, 128, (M, K), dtype=torch.int8)
    return a, torch.randint(-128, 128, (K, N), dtype=torch.int8)


@pytest.mark.parametrize("with_out", [False, True])
def test_a_row_with_a_stride_of_zero(with_out: bool) -> None:
    """pytorch #195066: torch 2.13 does not write the result."""
    a, b = _operands(1, 512, 512)
    out = torch.full((1, 512), -1, dtype=torch.int32) if with_out else None
    row = a.as_strided((1, 512), (0, 1))
    found = torch._int_mm(row, b, out=out)
    assert torch.equal(found, a.int() @ b.int())


@pytest.mark.parametrize("stride", [0, 1, 7, 64])
def test_a_column_of_any_stride(stride: int) -> None:
    a, b = _operands(17, 64, 1)
    column = b.as_strided((64, 1), (1, stride))
    assert torch.equal(torch._int_mm(a, column), a.int() @ b.int())


def test_one_element_out_of_many() -> None:
    a, b = _operands(17, 64, 32)
    row = a[:, ::2][3:4]
    assert torch.equal(torch._int_mm(row, b[::2]), row.int() @ b[::2].int())


@pytest.mark.parametrize("strides", list(itertools.product([0, 1, 2, 16, 40, 300], repeat=2)))
@pytest.mark.parametrize("size", [(1, 16), (16, 1), (40, 16), (16, 40), (1, 1)], ids=str)
def test_views_of_any_strides(size: tuple[int, int], strides: tuple[int, int]) -> None:
    """Expanded rows and overlapping windows too: torch 2.13 does not write their result."""
    a = torch.randint(-128, 128, (20_000,), dtype=torch.int8).as_strided(size, strides)
    b = torch.randint(-128, 128, (size[1], 24), dtype=torch.int8)
    assert torch.equal(torch._int_mm(a, b), a.int() @ b.int())
    out = torch.full((24, size[0]), -1, dtype=torch.int32)
    assert torch.equal(torch._int_mm(b.t(), a.t(), out=out), b.t().int() @ a.t().int())


@pytest.mark.parametrize("which", ["self", "mat2"])
@pytest.mark.parametrize("size", [32, 256])
def test_a_result_over_its_operand(size: int, which: str) -> None:
    out = torch.randint(-(2**31), 2**31 - 1, (size, size), dtype=torch.int32)
    a, b = _operands(size, size, size)
    part = out.view(-1).view(torch.int8)[: size * size].view(size, size)
    a, b = (part, b) if which == "self" else (a, part)
    expected = a.int() @ b.int()
    torch._int_mm(a, b, out=out)
    assert torch.equal(out, expected)


@pytest.mark.parametrize("isa", ["avx2", "ref"])
def test_without_vnni(isa: str) -> None:
    """There torch's oneDNN adds pairs of products in 16 bits, and its results are wrong."""
    with setting("max_isa", isa):
        for M, K, N in ((1, 1, 1), (3, 17, 50), (40, 300, 33)):
            a, b = _operands(M, K, N)
            assert torch.equal(torch._int_mm(a, b), a.int() @ b.int())
            assert torch.equal(torch._int_mm(a, b.t().contiguous().t()), a.int() @ b.int())
            bytes_ = a.view(torch.uint8)
            assert torch.equal(torch._int_mm(bytes_, b), bytes_.int() @ b.int())
