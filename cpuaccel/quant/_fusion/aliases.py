"""Finds tensors that an op mutates while other ops may read them, so that fusion skips them."""

from __future__ import annotations

from torch.fx import Node

from cpuaccel.quant import fused
from cpuaccel.quant._fusion.layers import layer_of
from cpuaccel.quant._fusion.model import Model


def shared_and_mutated(model: Model) -> set[Node]:
    """Return the nodes whose memory an op mutates although another op may read it as well.

    An in-place op whose operand has no other reader (conv, then relu6_) has the same effect as the
    op out of place, so it does not count.
    """
    groups = _Groups(model)
    found: set[Node] = set()
    for node in model.graph.nodes:
        if model.mutates(node) and not _alone(model, node):
            for operand in model.operands(node):
                found |= groups.of(operand)
            found.add(node)
    return found


def mutated_later(model: Model, node: Node) -> bool:
    """Return whether an op mutates the memory of `node`, or of a view of it."""
    waiting, seen = [node], {node}
    while waiting:
        for user in waiting.pop().users:
            if model.mutates(user):
                return True
            if user not in seen and _may_alias(model, user):
                seen.add(user)
                waiting.append(user)
    return False


def _alone(model: Model, node: Node) -> bool:
    operands = model.operands(node)
    if len(operands) != 1 or "out" in node.kwargs:
        return False
    operand = operands[0]
    while True:
        if len(operand.users) != 1:
            return False
        if not _may_alias(model, operand):
            return operand.op not in ("placeholder", "get_attr")
        sources = model.operands(operand)
        if len(sources) != 1:
            return False
        operand = sources[0]


def _may_alias(model: Model, node: Node) -> bool:
    """Return whether the result of `node` may share memory with an operand of it."""
    if node.op in ("placeholder", "get_attr", "output"):
        return False
    if layer_of(model, node) is not None or isinstance(model.called(node), fused.Fused):
        return False
    if model.is_elementwise(node):
        return model.is_same(node) or model.mutates(node)
    return True


class _Groups:
    """Nodes that may share memory."""

    def __init__(self, model: Model) -> None:
        self._group: dict[Node, set[Node]] = {}
        for node in model.graph.nodes:
            self._group[node] = {node}
            if _may_alias(model, node):
                for operand in model.operands(node):
                    self._join(node, operand)

    def of(self, node: Node) -> set[Node]:
        return self._group[node]

    def _join(self, a: Node, b: Node) -> None:
        if self._group[a] is self._group[b]:
            return
        joined = self._group[a] | self._group[b]
        for node in joined:
            self._group[node] = joined
