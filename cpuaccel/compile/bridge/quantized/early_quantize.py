"""Puts quantizers before view ops: quantize(view(layer)) becomes view(quantize(layer)).

The integers are the same, because a quantizer with one scale maps each element alone. The layer
then rounds in its own kernel, and view ops copy bytes instead of floats.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from cpuaccel._inductor.nodes import computed
from cpuaccel.compile.bridge._arguments import only_user
from cpuaccel.compile.bridge.quantized.tensors import (
    QUANTIZE,
    has_constant_quantizer,
    source_of,
)
from cpuaccel.compile.bridge.shapes import PERMUTES, RESHAPES, VIEWS

_aten: Any = torch.ops.aten

_VIEW_OPS = frozenset({*RESHAPES, *PERMUTES})
"""Each reads one tensor, and its result has all elements of that tensor."""

_ROWS = frozenset({_aten.addmm.default, _aten.bmm.default, _aten.mm.default})
"""Matrix products. A view after one is part of the layer: it restores the leading dimensions of the
source."""

_LAYERS = _ROWS | {_aten.convolution.default, _aten.linear.default}


def quantize_early(graph: Graph) -> None:
    """Put each quantize of a view of a layer's result before the view ops."""
    for node in graph.find_nodes(op="call_function", target=QUANTIZE):
        if has_constant_quantizer(node):
            _put_before(graph, node, _view_ops_before(node))


def _view_ops_before(quantize: Node) -> list[Node]:
    """Return the view ops between a layer and a quantize, first node first."""
    view_ops: list[Node] = []
    node = source_of(quantize)
    while node.target in _VIEW_OPS and only_user(node) is not None:
        view_ops.insert(0, node)
        node = source_of(node)
    if node.target not in _LAYERS or only_user(node) is None:
        return []
    if node.target in _ROWS and view_ops and _is_of_rows(node, view_ops[0]):
        del view_ops[0]
    return view_ops


def _is_of_rows(product: Node, view: Node) -> bool:
    """Say whether a view only reshapes the rows, or matrices, of a product."""
    trailing = product.meta["val"].dim() - 1
    pairs = zip(
        product.meta["val"].shape[-trailing:], view.meta["val"].shape[-trailing:], strict=False
    )
    return view.target in VIEWS and all(statically_known_true(a == b) for a, b in pairs)


def _put_before(graph: Graph, quantize: Node, view_ops: list[Node]) -> None:
    if not view_ops:
        return
    with graph.inserting_before(view_ops[0]):
        source = source_of(view_ops[0])
        early = graph.call_function(QUANTIZE, (source, *quantize.args[1:]), dict(quantize.kwargs))
    early.meta = {**quantize.meta, "val": _integers_like(source.meta["val"], quantize)}
    view_ops[0].replace_input_with(source, early)
    for view in view_ops:
        view.meta = {**view.meta, "val": computed(view)}
    quantize.replace_all_uses_with(view_ops[-1])
    graph.erase_node(quantize)


def _integers_like(tensor: Tensor, quantize: Node) -> Tensor:
    return torch.empty_like(tensor, dtype=quantize.meta["val"].dtype)
