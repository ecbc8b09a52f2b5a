"""Removes ops that compute what another node already holds.

Rotary embeddings multiply by a scaling of 1 and view cosines once for queries and once for keys.
diffusers divides by a rescaling factor of 1.
Norms cast to the dtype that they have already. Outside of regions, torch runs each of these ops in
each call; a cast also keeps layers out of one region.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from cpuaccel.compile.passes.aliasing import mutated_by
from cpuaccel.compile.passes.constant_folding import returned_or_aliased

_aten: Any = torch.ops.aten

_VIEWS = (_aten.unsqueeze.default, _aten.permute.default, _aten.transpose.int)


def remove(graph: Graph) -> None:
    """Replace products and quotients by 1, casts to the same dtype, and views that exist already.

    The node with the same values takes their place.

    Nothing changes in graphs that mutate a tensor, nor for nodes that a result may be a view of.
    """
    if mutated_by(graph):
        return
    given_away = returned_or_aliased(graph.output_node())
    views: dict[Hashable, Node] = {}
    for node in graph.nodes:
        same = _by_one(node) or _cast_to_itself(node)
        if node.target in _VIEWS and all(isinstance(each, int | Node) for each in node.args):
            same = views.setdefault((node.target, node.args), node)
        if same is None or same is node or node in given_away or same in given_away:
            continue
        node.replace_all_uses_with(same)
        graph.erase_node(node)


def _by_one(node: Node) -> Node | None:
    """Return the source of a product or quotient by 1 that leaves its dtype."""
    is_one_of = node.target in (_aten.mul.Tensor, _aten.div.Tensor)
    if not is_one_of or len(node.args) != 2 or node.kwargs:
        return None
    source, factor = node.args
    if not isinstance(source, Node) or isinstance(factor, bool) or factor != 1:
        return None
    before, after = source.meta.get("val"), node.meta.get("val")
    if not isinstance(before, Tensor) or not isinstance(after, Tensor):
        return None
    return source if before.dtype == after.dtype and before.is_floating_point() else None


def _cast_to_itself(node: Node) -> Node | None:
    """Return the source of `type_as` a tensor of the source's dtype and device."""
    if node.target is not _aten.type_as.default:
        return None
    source: Any = node.args[0]
    before, after = source.meta.get("val"), node.meta.get("val")
    if not isinstance(before, Tensor) or not isinstance(after, Tensor):
        return None
    return source if (before.dtype, before.device) == (after.dtype, after.device) else None
