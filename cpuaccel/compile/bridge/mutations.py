"""Translates mutations of a slice of a tensor that outlives the call, such as a decoder's cache."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import torch
from torch.fx import Graph, Node

from cpuaccel.compile.bridge import torch_fallback
from cpuaccel.compile.bridge._arguments import arguments_of
from cpuaccel.compile.bridge.shapes import slice_of
from cpuaccel.compile.bridge.translation import Fallback, Translation

_aten: Any = torch.ops.aten


def skip_slice_copies(graph: Graph) -> None:
    """Let slice_scatter read the given tensor, not torch's copy of it in the slice's layout.

    The copy reads the tensor as it was before the write, which an in-place write does not allow.
    """
    for node in graph.find_nodes(op="call_function", target=_aten.copy.default):
        slice_, given = node.args[:2]
        before, after = given.meta["val"], slice_.meta["val"]
        alike = before.shape == after.shape and before.dtype == after.dtype
        if alike and all(_writes_slice(user, node) for user in node.users):
            node.replace_all_uses_with(given)
            while node.target in _SLICES and not node.users:
                node, unread = node.args[0], node
                graph.erase_node(unread)


def _writes_slice(node: Node, update: Node) -> bool:
    return node.target is _aten.slice_scatter.default and node.args[1] is update


def _slice_scatter(translation: Translation, node: Node) -> None:
    if not translation.in_place:
        raise Fallback("")
    given = arguments_of(node)
    target, update = given["self"], given["src"]
    copy = _copied_back(target, node)
    if copy is None:
        raise Fallback("")
    if translation.tensor(target).dtype != translation.tensor(update).dtype:
        raise Fallback("a slice of another dtype")
    attributes = slice_of(translation, given)
    translation.begin([node, copy], node)
    inputs = [translation.read(target), translation.read(update)]
    translation.op("slice_scatter", inputs, node, **attributes)


def _copied_back(target: Any, node: Node) -> Node | None:
    """Return the copy_ of `node` to `target` at the end, if no other node reads `target`."""
    if not isinstance(target, Node) or target.op not in ("placeholder", "get_attr"):
        return None
    readers = [user for each in _same(target) for user in each.users]
    copies = [user for user in readers if user.args == (target, node) and _copies(user)]
    return copies[0] if len(copies) == 1 and set(readers) == {node, *copies} else None


def _same(target: Node) -> list[Node]:
    if target.op == "placeholder":
        return [target]
    held = target.graph.find_nodes(op="get_attr")
    return [each for each in held if each.target == target.target]


def _copies(node: Node) -> bool:
    return node.target is torch_fallback.COPY and not node.kwargs and not node.users


_SLICES: Container[Any] = (_aten.copy.default, _aten.slice.Tensor, _aten.select.int)

MUTATIONS = frozenset({"slice_scatter"})
"""Kinds of ops that cpuaccel runs: csrc/plan/slice_scatter.h. They mutate their first input."""

TRANSLATIONS = {_aten.slice_scatter.default: _slice_scatter}
