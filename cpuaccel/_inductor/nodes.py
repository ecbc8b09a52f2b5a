"""What passes over graphs do to nodes."""

from __future__ import annotations

from torch.fx import Node

_ORIGIN = ("stack_trace", "original_aten", "from_node", "nn_module_stack")


def keep_origin(node: Node, by: Node) -> None:
    """Say of `by`, which stands for `node` from now on, where it came from."""
    for name in _ORIGIN:
        if name in node.meta:
            by.meta.setdefault(name, node.meta[name])
