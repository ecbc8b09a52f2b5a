"""Moves values as quint8 where a model dequantizes, moves and quantizes them again.

dequantize -> chunk -> quantize becomes chunk -> dequantize -> quantize. Its end is a region of its
own, and is removed if both quantizers are equal.
"""

from __future__ import annotations

import torch
from torch.fx import Node
from torch.fx.node import Argument

from cpuaccel.quant._fusion.model import Model
from cpuaccel.quant._fusion.regions import Values
from cpuaccel.quant._fusion.sizes import is_size


def move_quantized(model: Model) -> None:
    """Put ops that move values between a dequantize and a quantize before both."""
    values = Values(model)
    moved: dict[tuple[Node, Node], Node] = {}
    for node in list(model.graph.nodes):
        if node.target is torch.quantize_per_tensor and torch.quint8 in node.args:
            path = _path(model, values, node)
            if any(model.is_view_op(step) for step in path):
                _rewrite(model, node, path, moved)


def _path(model: Model, values: Values, node: Node) -> list[Node]:
    """Return the nodes from a known quint8 tensor to `node`, which is the last.

    The list is empty if there is no such path, or if something else mutates a tensor on it.
    """
    path = [node]
    while True:
        step = path[0]
        operands = [operand for operand in model.operands(step) if not is_size(operand)]
        if values.mutated(step) or len(operands) != 1 or operands[0] is not step.args[0]:
            return []
        before = operands[0]
        if values.quantizer(before) is not None:
            return path
        if not (model.is_view_op(before) or model.is_elementwise(before)):
            return []
        path.insert(0, before)


def _rewrite(
    model: Model, node: Node, path: list[Node], moved: dict[tuple[Node, Node], Node]
) -> None:
    current = path[0].args[0]
    assert isinstance(current, Node)
    with model.graph.inserting_before(node):
        for step in path:
            if model.is_view_op(step):
                key = (step, current)
                if key not in moved:
                    moved[key] = _copy(model, step, current)
                current = moved[key]
        for step in path:
            if not model.is_view_op(step):
                current = _copy(model, step, current)
    node.replace_all_uses_with(current)
    current.meta.update(node.meta)
    model.erase_unused(reversed(path))


def _copy(model: Model, step: Node, operand: Argument) -> Node:
    # A view of a dequantized, so contiguous, tensor may need a copy of the quantized one.
    target = "reshape" if step.op == "call_method" and step.target == "view" else step.target
    args = (operand, *step.args[1:])
    return model.graph.create_node(step.op, target, args, step.kwargs)
