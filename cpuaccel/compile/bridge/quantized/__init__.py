"""Translates models in quantize/dequantize form to the integer ops of csrc/quant/steps.

`translate_quantized` runs before all other translations: it turns the ops between dequantize and
quantize into one integer op. Ops that it leaves are translated as any other float op, with
`quantize` and `dequantize` around them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch.fx import Graph, Node

from cpuaccel.compile.bridge.quantized import (
    attention,
    concat,
    conversions,
    elementwise,
    layers,
    normalization,
    pooling,
    shuffle,
    view_ops,
)
from cpuaccel.compile.bridge.quantized.early_quantize import quantize_early
from cpuaccel.compile.bridge.quantized.full_range import use_full_range
from cpuaccel.compile.bridge.quantized.late_casts import cast_late
from cpuaccel.compile.bridge.quantized.late_dequantize import dequantize_late
from cpuaccel.compile.bridge.quantized.quantize_chain import QuantizeChain, chain_before
from cpuaccel.compile.bridge.quantized.tensors import is_quantize
from cpuaccel.compile.bridge.translation import Fallback, Translation

TRANSLATIONS = conversions.TRANSLATIONS
dequantize_weights_once = conversions.dequantize_weights_once

_MATCHES = {
    **layers.MATCHES,
    **attention.MATCHES,
    **elementwise.MATCHES,
    **concat.MATCHES,
    **pooling.MATCHES,
    **normalization.MATCHES,
    **shuffle.MATCHES,
    **view_ops.MATCHES,
}
"""Functions that translate the nodes before a quantize, with the kinds that they add.

The first that does not return False is used.
"""

OPS = frozenset({"quantize", "dequantize", "q_linear_dynamic"}.union(*_MATCHES.values()))
"""Kinds of ops that cpuaccel runs: csrc/quant/steps."""

DECOMPOSITIONS = conversions.DECOMPOSITIONS

LAYERS = frozenset({"q_attention", "q_conv", "q_linear", "q_linear_dynamic"})


def translate_quantized(graph: Graph, translation: Translation) -> list[tuple[Node, str]]:
    """Translate the quantized ops; return the fallbacks and their reasons.

    In `graph`, casts are moved behind layers, quantizes before view ops of a layer's result, and
    dequantizes behind view ops. Quantizers of int8 or of a part of the integers become some of
    uint8 from 0 to 255.
    """
    cast_late(graph)
    quantize_early(graph)
    dequantize_late(graph, translation)
    use_full_range(graph, translation)
    fallbacks: list[tuple[Node, str]] = []
    for node in graph.nodes:
        if is_quantize(node):
            found = chain_before(node)
            _attempt(translation, node, fallbacks, partial(_take, translation, found))
    for node in graph.nodes:
        if node not in translation.unit_of:
            for match in (layers.with_float_result, attention.with_float_result):
                _attempt(translation, node, fallbacks, partial(match, translation, node))
    return fallbacks


def _take(translation: Translation, found: QuantizeChain) -> bool:
    return any(match(translation, found) for match in _MATCHES)


def _attempt(
    translation: Translation,
    node: Node,
    fallbacks: list[tuple[Node, str]],
    take: Callable[[], bool],
) -> None:
    try:
        take()
    except Fallback as why:
        translation.undo()
        if str(why):
            fallbacks.append((node, str(why)))
