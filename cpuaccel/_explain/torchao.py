"""Rows of `explain` for layers whose weights torchao quantized to 8 bits or fewer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from torch import nn

from cpuaccel._explain.explanation import Row
from cpuaccel._explain.intx import intx_bytes, intx_kernel, intx_problem

_INT8 = "cpuaccel.quant._torchao.int8_weights"
_INTX = "cpuaccel.quant._torchao.intx_weights"


def torchao_rows(path: str, op: str, module: nn.Module) -> Iterator[Row]:
    """Yield the row of `module` if its weight is of a class that cpuaccel is registered for."""
    weight: Any = getattr(module, "weight", None)
    int8: Any = sys.modules.get(_INT8)  # imported with torchao
    intx: Any = sys.modules.get(_INTX)
    of_int8 = int8 is not None and int8.is_int8(weight)
    of_intx = intx is not None and intx.is_intx(weight)
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        if of_int8 or of_intx:
            yield _embedding_row(path, op, weight)
    elif of_int8:
        yield _by_torchao(path, op, int8.weight_reason(weight)) or _int8_row(path, op, weight)
    elif of_intx:
        row = _by_torchao(path, op, intx.weight_reason(weight))
        yield row or _intx_row(path, op, weight, intx.packed_bits(weight))


def _embedding_row(path: str, op: str, weight: Any) -> Row:
    from cpuaccel.quant._torchao.embedding import table_reason

    dtype = str(getattr(weight, "target_dtype", weight.qdata.dtype)).removeprefix("torch.")
    return _by_torchao(path, op, table_reason(weight)) or Row(
        *(path, op, "cpuaccel", "intx_embedding"), reason=_reason(dtype, False)
    )


def _by_torchao(path: str, op: str, reason: str) -> Row | None:
    return Row(path, op, "torch", reason=f"torchao's own function: {reason}") if reason else None


def _int8_row(path: str, op: str, weight: Any) -> Row:
    rounds = weight.act_quant_kwargs is not None
    if weight.scale.shape[1] != 1:
        return _row_of_groups(path, op, weight, "int8", 8, rounds)
    return Row(
        *(path, op, "cpuaccel", "qgemm" if rounds else "gemm_w8"), reason=_reason("int8", rounds)
    )


def _intx_row(path: str, op: str, weight: Any, bits: int) -> Row:
    rounds = weight.activation_quantization is not None
    dtype = str(weight.target_dtype).removeprefix("torch.")
    return _row_of_groups(path, op, weight, dtype, bits, rounds)


def _row_of_groups(path: str, op: str, weight: Any, dtype: str, bits: int, rounds: bool) -> Row:
    return Row(
        *(path, op, "cpuaccel", intx_kernel(rounds)),
        reason=_reason(dtype, rounds),
        problem=intx_problem(bits, weight.shape, weight.block_size[1]),
        packed_bytes=intx_bytes(
            *(bits, weight.shape, weight.block_size[1], weight.scale.element_size()),
            _zero_bytes(weight.zero_point, weight.scale),
        ),
    )


def _zero_bytes(zero_point: Any, scale: Any) -> int:
    """Return the bytes of a group's zero point: none are packed if all are zero."""
    if zero_point is None:
        return 0
    if zero_point.is_floating_point():
        size: int = scale.element_size()
        return size
    return int(bool(zero_point.any()))


def _reason(dtype: str, rounds: bool) -> str:
    return f"torchao's {dtype} weight" + (", int8 activations" if rounds else "")
