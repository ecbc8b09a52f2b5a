"""Translates moves of quantized tensors: views, permutations and slices."""

from __future__ import annotations

from torch.fx import Node

from cpuaccel.compile.bridge import shapes
from cpuaccel.compile.bridge._arguments import only_user
from cpuaccel.compile.bridge.quantized.between import Between
from cpuaccel.compile.bridge.quantized.tensors import is_dequantize, quantizer_of, source_of
from cpuaccel.compile.bridge.translation import Refused, Translation, value_of


def moved(translation: Translation, found: Between) -> bool:
    """quantize(function(move(dequantize(x)))), for moves that read one tensor."""
    node = found.anchor
    move = quantized_move(translation, node)
    if move is None:
        return False
    dequantize = move.source
    kind, attributes = move.kind, move.attributes
    entries = found.table(quantizer_of(dequantize))
    translation.look_through(node, dequantize, *move.looked_through)
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


def quantized_move(translation: Translation, node: Node) -> shapes.Move | None:
    """Return the move of `node`, which is read once, if it moves dequantized values."""
    if only_user(node) is None:
        return None
    try:
        move = shapes.move_of(translation, node)
    except Refused:
        return None
    return move if move is not None and is_dequantize(move.source) else None
