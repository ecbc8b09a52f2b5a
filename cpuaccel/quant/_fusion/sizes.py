"""Recognizes graph nodes that are sizes of tensors, or computed from sizes."""

from __future__ import annotations

import operator

from torch.fx import Node


def is_size(node: Node) -> bool:
    """Return whether `node` is a size of a tensor, or computed from sizes."""
    if node.op == "call_method":
        return node.target in ("size", "dim", "numel")
    if node.op != "call_function" or not node.all_input_nodes:
        return False
    return _is_shape(node) or all(is_size(source) for source in node.all_input_nodes)


def is_dimension(value: object, tensor: Node, dim: int) -> bool:
    """Return whether `value` is the size of `tensor` along `dim`."""
    if not isinstance(value, Node):
        return False
    if value.op == "call_method" and value.target == "size":
        return value.args == (tensor, dim)
    if value.target is not operator.getitem or value.args[1] != dim:
        return False
    sizes = value.args[0]
    if not isinstance(sizes, Node) or not sizes.args or sizes.args[0] is not tensor:
        return False
    return _is_shape(sizes) or (sizes.target == "size" and len(sizes.args) == 1)


def _is_shape(node: Node) -> bool:
    return node.target is getattr and node.args[1] == "shape"


def with_sources(nodes: list[Node]) -> list[Node]:
    """Return `nodes` and the sizes that they read, directly or not, users before what they use."""
    found = list(nodes)
    for node in found:  # grows
        found += [s for s in node.all_input_nodes if is_size(s) and s not in found]
    return sorted(found, reverse=True)
