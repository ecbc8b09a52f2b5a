"""Translates reductions over dimensions: sum, amax, amin."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from cpuaccel.compile.bridge._arguments import arguments_of, common_float_dtype
from cpuaccel.compile.bridge.translation import Fallback, Translation

_aten: Any = torch.ops.aten


def _reduce(kind: str) -> Any:
    def translate(translation: Translation, node: Node) -> None:
        given = arguments_of(node)
        src = given["self"]
        if given.get("dtype") is not None:
            raise Fallback("a dtype argument")
        common_float_dtype(translation, src)
        rank = translation.tensor(src).dim()
        axes = sorted(dim % rank for dim in (given["dim"] or range(rank)))
        translation.begin([node], node)
        translation.op(
            kind, [translation.read(src)], node, axes=axes, keep_dims=bool(given["keepdim"])
        )

    return translate


TRANSLATIONS = {
    _aten.sum.dim_IntList: _reduce("ReduceSum"),
    _aten.amax.default: _reduce("ReduceMax"),
    _aten.amin.default: _reduce("ReduceMin"),
}
