"""Rows of the ops that `cpuaccel.quant.fuse` puts into a model, other than torch's ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from calls._row import Row, Sample
from calls._rows_packed import _pack_conv, _pack_linear
from calls._values import SCALE, values

Q = torch.ops.quantized
_BETWEEN, _TO = (0.2, 60), (0.25, 70)


class _Table:
    """A table of 256 bytes. No way changes it, because `fuse` always makes contiguous ones."""

    values = torch.arange(255, -1, -1, dtype=torch.int16).to(torch.uint8)


_TABLE = _Table()


def _layers() -> dict[str, tuple[Callable[[], Any], Any, tuple[int, ...], tuple[int, ...]]]:
    """How weights are packed, torch's op, and the shapes of input and result."""
    return {
        "conv2d": (
            lambda: _pack_conv("conv2d_prepack", 2),
            Q.conv2d,
            (2, 16, 6, 6),
            (2, 16, 6, 6),
        ),
        "linear": (_pack_linear, Q.linear, (17, 40), (17, 24)),
    }


def _mapped(x: Tensor, table: _Table, scale: float, zero_point: int) -> Tensor:
    """Replaces each byte of `x` by the table's, with another quantizer."""
    integers = table.values[x.int_repr().long()]
    return torch._make_per_tensor_quantized_tensor(integers, scale, zero_point)


def _table_row(layer: str) -> Row:
    pack, op, shape, _ = _layers()[layer]

    def samples(dtype: torch.dtype) -> list[Sample]:
        x, bad = (
            values(*shape, dtype=dtype),
            values(shape[0], shape[1] + 1, *shape[2:], dtype=dtype),
        )
        rest = (*_BETWEEN, False, _TABLE, *_TO)
        packed = pack()
        return [Sample((x, packed, *rest)), Sample((bad, packed, *rest), kind="bad")]

    def plain(x: Tensor, packed: Any, scale: float, zero: int, relu: bool, *rest: Any) -> Tensor:
        del relu
        return _mapped(op(x, packed, scale, zero), *rest)

    return _row(f"{layer}_table", samples, plain)


def _binary_row(layer: str, name: str) -> Row:
    pack, op, shape, result = _layers()[layer]
    binary = getattr(Q, name)

    def samples(dtype: torch.dtype) -> list[Sample]:
        x, y = values(*shape, dtype=dtype), values(*result, dtype=dtype, seed=4)
        bad = values(shape[0], shape[1] + 1, *shape[2:], dtype=dtype)
        rest = (*_BETWEEN, False, None, 1.0, 0, y, *_TO, False)
        packed = pack()
        return [Sample((x, packed, *rest)), Sample((bad, packed, *rest), kind="bad")]

    def plain(x: Tensor, packed: Any, scale: float, zero: int, *rest: Any) -> Tensor:
        y, *to = rest[4:7]
        return binary(op(x, packed, scale, zero), y, *to)

    # An error of one quantum between the two ops becomes this many quanta of the result.
    factor = 1.0 if name == "add" else 255 * SCALE
    return _row(f"{layer}_{name}", samples, plain, 1 + _BETWEEN[0] * factor / _TO[0])


def _quantized_table(dtype: torch.dtype) -> list[Sample]:
    return [
        Sample((values(2, 16, 6, 6, dtype=dtype), _TABLE, *_TO)),
        Sample((values(0, 16, dtype=dtype), _TABLE, *_TO), kind="empty"),
    ]


def _row(name: str, samples: Any, plain: Any, quanta: float = 1.0) -> Row:
    def call(*args: Any) -> Any:
        given = (arg.values if isinstance(arg, _Table) else arg for arg in args)
        return getattr(torch.ops.cpuaccel, name)(*given)

    return Row(
        f"fused_{name}",
        samples,
        keys=(),
        covers=(f"cpuaccel::{name}",),
        call=call,
        plain=plain,
        dtypes=(torch.quint8,),
        quanta=quanta,
    )


ROWS = (
    *(_table_row(layer) for layer in ("conv2d", "linear")),
    *(_binary_row(layer, name) for layer in ("conv2d", "linear") for name in ("add", "mul")),
    _row("quantized_table", _quantized_table, _mapped),
)
