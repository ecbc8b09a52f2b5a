"""The op torch.ops.cpuaccel.quantized_table."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from quant._engine import counted, needs_front_end
from torch import Tensor

from ops._compare import assert_on_cpuaccel, capped, isas
from ops._quantizers import every_value, layouts, shapes, tensor

pytestmark = needs_front_end


def quantized_table(qx: Tensor, table: Tensor, scale: float, zero_point: int) -> Tensor:
    return torch.ops.cpuaccel.quantized_table(qx, table, scale, zero_point)


def some_table(seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (256,), generator=generator).to(torch.uint8)


@isas
def test_every_value(isa: str) -> None:
    table = some_table(1)
    with capped(isa), counted() as counts:
        y = quantized_table(every_value(0.1, 3), table, 0.25, 7)
    assert torch.equal(y.int_repr(), table)
    assert (y.q_scale(), y.q_zero_point(), y.dtype) == (0.25, 7, torch.quint8)
    assert_on_cpuaccel(counts, "table")


@given(shape=shapes, layout=layouts, seed=st.integers(0, 99))
def test_every_shape_and_layout(shape: tuple[int, ...], layout: str, seed: int) -> None:
    x = tensor(shape, layout, (0.1, 3), seed)
    table = some_table(seed)
    y = quantized_table(x, table, 0.5, 0)
    assert y.shape == x.shape
    assert torch.equal(y.int_repr(), table[x.int_repr().long()])


def test_the_memory_format_is_kept() -> None:
    x = tensor((2, 5, 6, 7), "channels_last", (0.1, 3), 1)
    assert quantized_table(x, some_table(1), 0.5, 0).stride() == x.stride()


@pytest.mark.parametrize(
    ("qx", "table", "scale", "zero_point", "message"),
    [
        (
            every_value(0.1, 3, torch.qint8),
            some_table(1),
            0.5,
            0,
            "Expected qx data type QUInt8 but got QInt8",
        ),
        (every_value(0.1, 3), some_table(1).int(), 0.5, 0, "table to be .* Byte, but got Int"),
        (every_value(0.1, 3), some_table(1)[:255], 0.5, 0, "table to have shape .256.*255"),
        (
            every_value(0.1, 3),
            some_table(1).view(16, 16),
            0.5,
            0,
            "table to have shape .256.*16, 16",
        ),
        (every_value(0.1, 3), some_table(1), 0.0, 0, "scale to be positive and finite.*0"),
        (every_value(0.1, 3), some_table(1), float("nan"), 0, "scale to be positive.*nan"),
        (every_value(0.1, 3), some_table(1), 0.5, 256, "zero_point to be between 0 and 255.*256"),
    ],
)
def test_invalid_arguments_raise(
    qx: Tensor, table: Tensor, scale: float, zero_point: int, message: str
) -> None:
    with pytest.raises(RuntimeError, match=message):
        quantized_table(qx, table, scale, zero_point)


def test_per_channel_raises() -> None:
    x = torch.quantize_per_channel(
        torch.randn(4, 5), torch.full((4,), 0.1), torch.zeros(4).int(), 0, torch.quint8
    )
    with pytest.raises(RuntimeError, match="per tensor"):
        quantized_table(x, some_table(1), 0.5, 0)
