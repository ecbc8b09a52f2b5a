"""Translates scaled dot-product attention to one op of cpuaccel, which computes it in blocks."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from cpuaccel import _native
from cpuaccel.compile.bridge._arguments import arguments_of, common_float_dtype, first_result
from cpuaccel.compile.bridge.mask_sums import mask_sum_of
from cpuaccel.compile.bridge.translation import Fallback, Translation, hint

_aten: Any = torch.ops.aten


def _attention(translation: Translation, node: Node) -> None:
    given = arguments_of(node)
    if given["dropout_p"] != 0:
        raise Fallback("dropout_p is not 0")
    operands = [given[name] for name in ("query", "key", "value")]
    common_float_dtype(translation, *operands)
    query, key, value = map(translation.tensor, operands)
    if not _have_matching_sizes(query, key, value):
        raise Fallback("grouped-query heads, or heads of different sizes")
    mask = given["attn_mask"]
    if mask is not None and translation.tensor(mask).dtype not in (torch.float32, query.dtype):
        raise Fallback("a mask of another dtype")
    result = first_result(node)
    if result is None:
        raise Fallback("the logsumexp result is used")
    N, H, L, E = map(hint, query.shape)
    bf16, causal = query.dtype == torch.bfloat16, bool(given["is_causal"])
    has_mask, S = mask is not None, hint(key.shape[2])
    if why := _native.load().attention_plan_fallback_reason(N, H, L, S, E, bf16, has_mask, causal):
        raise Fallback(why)
    scale = given["scale"]
    if scale is None:
        scale = 1 / math.sqrt(hint(query.shape[3]))
    sizes = (*query.shape[:3], key.shape[2])
    parts = mask_sum_of(mask, sizes) if has_mask else None
    translation.begin([node, result], result)
    if parts is not None:
        operands += parts.parts
    elif has_mask:
        operands.append(mask)
    inputs = [translation.read(each) for each in operands]
    if parts is not None:
        translation.look_through(node, *parts.between)
    translation.op("attention", inputs, result, scale=float(scale), causal=causal)


def _have_matching_sizes(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Say whether batch, heads and head size are known to be equal, and head size is static."""
    same = [(query.shape[dim], key.shape[dim]) for dim in (0, 1, 3)]
    same += zip(key.shape, value.shape, strict=True)
    return isinstance(query.shape[3], int) and all(statically_known_true(a == b) for a, b in same)


KINDS = frozenset({"attention"})
"""Kinds of ops that cpuaccel runs: csrc/ops/region/attention_step.cpp."""

TRANSLATIONS = {_aten._scaled_dot_product_flash_attention_for_cpu.default: _attention}
