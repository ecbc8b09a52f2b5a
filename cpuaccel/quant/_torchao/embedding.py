"""F.embedding and F.embedding_bag with a class of torchao's tensors as the table.

cpuaccel::intx_embedding reads and dequantizes the rows that are asked for; torchao dequantizes the
whole table, and has no bags. torch.compile and torch.export trace it to one op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from cpuaccel import _native
from cpuaccel._ops import intx_embedding as _fake_kernel  # noqa: F401
from cpuaccel.quant._torchao.registration import Function, Maker

_F: Any = torch.nn.functional
_OP: Any = torch.ops.aten.embedding.default

ADDED = (_F.embedding, _F.embedding_bag)
"""The functions that a class of torchao's may lack."""

_COUNTED = "intx_embedding"


def embedding_by(cls: Any) -> Mapping[Any, Maker]:
    """Return what makes cpuaccel's functions for tables of the class `cls`."""

    def make_op(before: Function | None) -> Function:
        # torchao's IntxUnpackedToInt8Tensor takes the arguments of this op for F.embedding's.
        def embedding(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            table, indices = args[:2]
            if reason := table_reason(table):
                _count(reason)
                return func(table.dequantize(), indices, *args[2:], **kwargs)
            return _rows(table, indices)

        return embedding

    def by(names: Sequence[str], compute: Callable[[Tensor, Any, dict[str, Any]], Tensor]) -> Maker:
        """Return what makes a function whose arguments have these names."""

        def make(before: Function | None) -> Function:
            def function(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
                call = dict(zip(names, args, strict=False)) | (kwargs or {})
                indices, table = call.pop("input"), call.pop("weight")
                if reason := _call_reason(cls, table, call):
                    _count(reason)
                    return func(indices, table.dequantize(), **call)
                return compute(indices, table, call)

            return function

        return make

    def rows(indices: Tensor, table: Any, call: dict[str, Any]) -> Tensor:
        return _rows(table, indices)

    return {
        _OP: make_op,
        _F.embedding: by(_EMBEDDING, rows),
        _F.embedding_bag: by(_BAG, _bags),
    }


_EMBEDDING = (
    "input",
    "weight",
    "padding_idx",
    "max_norm",
    "norm_type",
    "scale_grad_by_freq",
    "sparse",
)
_BAG = (
    "input",
    "weight",
    "offsets",
    "max_norm",
    "norm_type",
    "scale_grad_by_freq",
    "mode",
    "sparse",
    "per_sample_weights",
    "include_last_offset",
    "padding_idx",
)


def table_reason(table: Any) -> str:
    """Say why cpuaccel's op cannot read rows of this table; empty if it can."""
    if table.device.type != "cpu":
        return "not on the CPU"
    if table.dim() != 2 or table.scale.dim() != 2 or table.block_size[0] != 1:
        return "a scale for several rows, or the weight is no matrix"
    return ""


def _call_reason(cls: Any, table: Any, call: dict[str, Any]) -> str:
    if type(table) is not cls:
        return "a subclass of torchao's tensors"
    if call.get("max_norm") is not None:
        return "max_norm"
    padding = call.get("padding_idx")
    if padding is not None and not -table.shape[0] <= padding < table.shape[0]:
        return "padding_idx out of range"
    return table_reason(table)


def _count(reason: str) -> None:
    if not torch.compiler.is_compiling():
        _native.load().count_fallback(_COUNTED, reason)


def _rows(table: Any, indices: Tensor) -> Tensor:
    rows: Tensor = torch.ops.cpuaccel.intx_embedding.default(
        table.qdata, table.scale, table.zero_point, indices, table.dtype
    )
    return rows


def _bags(indices: Tensor, table: Any, call: dict[str, Any]) -> Tensor:
    """Bags of the rows that are asked for: index i of a bag becomes row i of them."""
    flat = indices.reshape(-1)
    rows, count = _rows(table, flat), flat.numel()
    numbers = torch.arange(count, dtype=flat.dtype)
    padding = call.get("padding_idx")
    if padding is not None:
        numbers = numbers.where(flat != padding % table.shape[0], count)
        rows = torch.cat([rows, rows.new_zeros(1, rows.shape[1])])
        call = call | {"padding_idx": count}
    result: Tensor = _F.embedding_bag(numbers.view_as(indices), rows, **call)
    return result
