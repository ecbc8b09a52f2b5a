"""Translates view ops on quantized tensors: views, permutations and slices."""

from __future__ import annotations

from torch.fx import Node

from cpuaccel.compile.bridge import shapes
from cpuaccel.compile.bridge._arguments import only_user
from cpuaccel.compile.bridge.quantized.quantize_chain import Matches, QuantizeChain
from cpuaccel.compile.bridge.quantized.tensors import is_dequantize, quantizer_of, source_of
from cpuaccel.compile.bridge.translation import Fallback, Translation, value_of


def view_op(translation: Translation, found: QuantizeChain) -> bool:
    """quantize(function(view(dequantize(x)))), for view ops that read one tensor."""
    node = found.anchor
    view = quantized_view_op(translation, node)
    if view is None:
        return False
    dequantize = view.source
    kind, attributes = view.kind, view.attributes
    entries = found.table(quantizer_of(dequantize))
    translation.look_through(node, dequantize, *view.looked_through)
    translation.begin([node, *found.nodes], found.quantize)
    x = translation.read(source_of(dequantize))
    if entries == list(range(len(entries))):
        translation.op(kind, [x], found.quantize, **attributes)
    else:
        like = value_of(translation.tensor(found.quantize))
        between = translation.op(kind, [x], like=like, **attributes)
        translation.op("q_table", [between], found.quantize, table=entries)
    translation.end()
    return True


def quantized_view_op(translation: Translation, node: Node) -> shapes.ViewOp | None:
    """Return the view op of `node`, which is read once, if its source is dequantized."""
    if only_user(node) is None:
        return None
    try:
        view = shapes.view_op_of(translation, node)
    except Fallback:
        return None
    return view if view is not None and is_dequantize(view.source) else None


MATCHES: Matches = {view_op: ("q_table",)}
