"""Puts quantizers before moves: quantize(move(layer)) becomes move(quantize(layer)).

The integers are the same, because a quantizer with one scale maps each element alone. The layer
then rounds in its own kernel, and bytes are moved instead of floats.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from cpuaccel._inductor.nodes import computed
from cpuaccel.compile.bridge._arguments import only_user
from cpuaccel.compile.bridge.quantized.tensors import QUANTIZE, is_quantize, source_of
from cpuaccel.compile.bridge.shapes import PERMUTES, RESHAPES, VIEWS

_aten: Any = torch.ops.aten

_MOVES = frozenset({*RESHAPES, *PERMUTES})
"""Each reads one tensor, and its result has all elements of that tensor."""

_ROWS = frozenset({_aten.addmm.default, _aten.bmm.default, _aten.mm.default})
"""Matrix products. A view after one is part of the layer: it restores the leading dimensions of the
source."""

_LAYERS = _ROWS | {_aten.convolution.default, _aten.linear.default}


def quantize_early(graph: Graph) -> None:
    """Put each quantize of a layer's moved result before the moves."""
    for node in graph.find_nodes(op="call_function", target=QUANTIZE):
        if is_quantize(node):
            _put_before(graph, node, _moves_before(node))


def _moves_before(quantize: Node) -> list[Node]:
    """Return the moves between a layer and a quantize, first node first."""
    moves: list[Node] = []
    node = source_of(quantize)
    while node.target in _MOVES and only_user(node) is not None:
        moves.insert(0, node)
        node = source_of(node)
    if node.target not in _LAYERS or only_user(node) is None:
        return []
    if node.target in _ROWS and moves and _is_of_rows(node, moves[0]):
        del moves[0]
    return moves


def _is_of_rows(product: Node, move: Node) -> bool:
    """Say whether a move only reshapes the rows, or matrices, of a product."""
    kept = product.meta["val"].dim() - 1
    pairs = zip(product.meta["val"].shape[-kept:], move.meta["val"].shape[-kept:], strict=False)
    return move.target in VIEWS and all(statically_known_true(a == b) for a, b in pairs)


def _put_before(graph: Graph, quantize: Node, moves: list[Node]) -> None:
    if not moves:
        return
    with graph.inserting_before(moves[0]):
        source = source_of(moves[0])
        early = graph.call_function(QUANTIZE, (source, *quantize.args[1:]), dict(quantize.kwargs))
    early.meta = {**quantize.meta, "val": _bytes_like(source.meta["val"])}
    moves[0].replace_input_with(source, early)
    for move in moves:
        move.meta = {**move.meta, "val": computed(move)}
    quantize.replace_all_uses_with(moves[-1])
    graph.erase_node(quantize)


def _bytes_like(tensor: Tensor) -> Tensor:
    return torch.empty_like(tensor, dtype=torch.uint8)
