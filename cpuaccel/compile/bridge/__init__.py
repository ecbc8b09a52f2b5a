"""Translates ATen ops to ops of oneDNN Graph, with a file for each kind of op.

`TRANSLATIONS` has a function for each ATen op that can be translated. The function gets the
translation so far and a node. It adds the ops that compute the node, or raises `Fallback` with the
reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.fx import Node

from cpuaccel.compile.bridge import (
    attention,
    cached_attention,
    convolution,
    elementwise,
    gated_product,
    int8_linear,
    intx_linear,
    matmul,
    mutations,
    normalization,
    pooling,
    quantized,
    reduction,
    resizing,
    rms_norm,
    rotary,
    selection,
    shapes,
)
from cpuaccel.compile.bridge.translation import Translation

VIEW_OPS = shapes.VIEW_OPS
MUTATIONS = mutations.MUTATIONS
_INTEGER_LINEAR = int8_linear.KINDS | intx_linear.KINDS
DECODER_STEPS = frozenset().union(
    *(each.KINDS for each in (rms_norm, rotary, gated_product, cached_attention, elementwise))
)
"""Kinds of ops between the products of a decoder."""
CPUACCEL_OPS = (
    VIEW_OPS | MUTATIONS | attention.KINDS | quantized.OPS | _INTEGER_LINEAR | DECODER_STEPS
)
"""Kinds of ops that cpuaccel runs, not oneDNN Graph."""
QUANTIZED = quantized.OPS | _INTEGER_LINEAR
QUANTIZED_LAYERS = quantized.LAYERS | _INTEGER_LINEAR
CASTS = shapes.CASTS
DECOMPOSITIONS = quantized.DECOMPOSITIONS
translate_quantized = quantized.translate_quantized
dequantize_weights_once = quantized.dequantize_weights_once
skip_slice_copies = mutations.skip_slice_copies

Translate = Callable[[Translation, Node], None]

TRANSLATIONS: dict[Any, Translate] = {
    **convolution.TRANSLATIONS,
    **matmul.TRANSLATIONS,
    **int8_linear.TRANSLATIONS,
    **intx_linear.TRANSLATIONS,
    **attention.TRANSLATIONS,
    **cached_attention.TRANSLATIONS,
    **elementwise.TRANSLATIONS,
    **normalization.TRANSLATIONS,
    **pooling.TRANSLATIONS,
    **quantized.TRANSLATIONS,
    **reduction.TRANSLATIONS,
    **resizing.TRANSLATIONS,
    **rms_norm.TRANSLATIONS,
    **selection.TRANSLATIONS,
    **shapes.TRANSLATIONS,
    **mutations.TRANSLATIONS,
}

Match = Callable[[Translation, Node], bool]

PATTERNS: dict[Any, list[Match]] = {}
"""Functions that translate several ops as one, by the op that shows them. They come first."""
for _patterns in (rms_norm.PATTERNS, rotary.PATTERNS, gated_product.PATTERNS):
    for _op, _match in _patterns.items():
        PATTERNS.setdefault(_op, []).append(_match)
