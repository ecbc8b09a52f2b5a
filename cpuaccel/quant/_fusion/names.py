"""Short names of the ops of a graph, for display."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch.fx import Node

from cpuaccel.quant._fusion.elementwise import op_name
from cpuaccel.quant._fusion.model import Model

_SHORT = {
    "ConvReLU2d": "conv2d_relu",
    "ConvTranspose2d": "conv_transpose2d",
    "LinearReLU": "linear_relu",
    "quantize_per_tensor": "quantize",
}


def name_of(model: Model, node: Node) -> str:
    """Return the name of what `node` calls, as short as `conv2d_relu`, `silu` or `add`."""
    module = model.called(node)
    if module is not None:
        name = type(module).__name__
        return _SHORT.get(name, name.lower())
    target: Any = node.target
    name = op_name(target).rpartition("::")[2] or str(getattr(target, "__name__", target))
    return _SHORT.get(name, name)


def names_of(model: Model, nodes: Iterable[Node]) -> tuple[str, ...]:
    """Return the names of what the nodes call, without dropouts, which do nothing."""
    return tuple(name_of(model, node) for node in nodes if not model.is_same(node))
