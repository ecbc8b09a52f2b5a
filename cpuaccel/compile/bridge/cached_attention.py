"""Translates a decoder's attentions, so that a region goes on from layer to layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from cpuaccel.compile.bridge._arguments import STEP_DTYPES, common_float_dtype
from cpuaccel.compile.bridge.translation import Fallback, Translation

_cpuaccel: Any = torch.ops.cpuaccel

KINDS = frozenset({"cached_attention", "cross_attention"})
"""Kinds of ops that cpuaccel runs: csrc/ops/region/cached_attention_step.cpp."""


def _attention(kind: str) -> Callable[[Translation, Node], None]:
    def translate(translation: Translation, node: Node) -> None:
        arguments: Any = node.args
        *operands, site = arguments
        if common_float_dtype(translation, *operands) not in STEP_DTYPES:
            raise Fallback("a dtype that steps do not have")
        translation.begin([node], node)
        inputs = [translation.read(each) for each in operands]
        translation.op(kind, inputs, node, site=site)

    return translate


TRANSLATIONS = {
    _cpuaccel.cached_attention.default: _attention("cached_attention"),
    _cpuaccel.cross_attention.default: _attention("cross_attention"),
}
