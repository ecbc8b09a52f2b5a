"""Translates a decoder's attention with its cache, so that a region goes on from layer to layer."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from cpuaccel.compile.bridge._arguments import STEP_DTYPES, common_float_dtype
from cpuaccel.compile.bridge.translation import Fallback, Translation

_cpuaccel: Any = torch.ops.cpuaccel

KINDS = frozenset({"cached_attention"})
"""Kinds of ops that cpuaccel runs: csrc/ops/region/cached_attention_step.cpp."""


def _cached_attention(translation: Translation, node: Node) -> None:
    arguments: Any = node.args
    *operands, site = arguments
    if common_float_dtype(translation, *operands) not in STEP_DTYPES:
        raise Fallback("a dtype that steps do not have")
    translation.begin([node], node)
    inputs = [translation.read(each) for each in operands]
    translation.op("cached_attention", inputs, node, site=site)


TRANSLATIONS = {_cpuaccel.cached_attention.default: _cached_attention}
