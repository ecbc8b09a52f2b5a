"""Lowering: the graph that is being written, and the new values of the old graph's nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node, map_arg
from torch.fx.node import Argument

from cpuaccel.quant._fusion.model import Model
from cpuaccel.quant._lowering.emitter import Emitter
from cpuaccel.quant._lowering.values import Quantizer


class Lowering:
    """The new values of a convert_fx graph's nodes.

    A value is of one of three kinds: plain (floats, sizes, anything that was not quantized),
    integers with their quantizer, or left, which is a quantized tensor of torch as in the old
    graph.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.emit = Emitter()
        self.unlowered: dict[Node, str] = {}
        """Nodes that are not lowered, with the name of what they call."""
        self._values: dict[Node, Node] = {}
        self._quantizers: dict[Node, Quantizer] = {}

    # Facts about an argument of an old node

    def quantizer(self, argument: Argument) -> Quantizer | None:
        """Return the quantizer of an argument, or of the first of several; None if not integers."""
        if isinstance(argument, (list, tuple)):
            return self.quantizer(argument[0]) if argument else None
        return self._quantizers.get(argument) if isinstance(argument, Node) else None

    def is_quantized(self, node: Node) -> bool:
        """Return whether `node` reads integers, or a value without a lowering."""
        sources = node.all_input_nodes
        return any(source in self._quantizers or source in self.unlowered for source in sources)

    def reads_unlowered(self, node: Node) -> bool:
        """Return whether `node` reads a value without a lowering."""
        return any(source in self.unlowered for source in node.all_input_nodes)

    def number(self, argument: object) -> Any:
        """Return a number, even if an attribute holds it, or any other constant as it is."""
        value = self.model.number(argument)
        return argument if value is None else value

    # An argument in the new graph

    def as_is(self, argument: Argument) -> Argument:
        """Return it in the new graph; integers stay integers."""
        return map_arg(argument, self._new)

    def as_float(self, argument: Argument) -> Argument:
        """Return it in the new graph, as floats."""
        return map_arg(argument, self._float)

    def as_quantized(self, argument: Argument) -> Argument:
        """Return it in the new graph, as torch's quantized tensors."""
        return map_arg(argument, self._quantized)

    def as_result(self, argument: Argument) -> Argument:
        """Return what the graph returns in the new graph."""
        return self.as_quantized(argument)

    # The new value of a node

    def put(self, node: Node, value: Node, quantizer: Quantizer | None = None) -> None:
        """Set the new value of `node`: integers if there is a quantizer."""
        self._values[node] = value
        self.unlowered.pop(node, None)
        if quantizer is None:
            self._quantizers.pop(node, None)
        else:
            self._quantizers[node] = quantizer

    def put_quantized(self, node: Node, floats: Argument, quantizer: Quantizer) -> None:
        """Set the new value of `node` to `floats`, quantized."""
        self.put(node, self.emit.quantize(floats, quantizer), quantizer)

    def put_unlowered(self, node: Node, value: Node, called: str) -> None:
        """Set the new value of `node`, which has no rule, to `value`: torch's `called`."""
        self.put(node, value)
        self.unlowered[node] = called

    def copy(self, node: Node, read: Callable[[Argument], Argument]) -> Node:
        """Write `node` again, with the arguments that `read` returns."""
        args: Any = read(node.args)
        kwargs: Any = read(node.kwargs)
        new = self.emit.graph.create_node(node.op, node.target, args, kwargs, node.name)
        if node.op in ("call_module", "get_attr"):
            self._keep(node)
        return new

    def constant(self, node: Node, name: str, value: object) -> Argument:
        """Return a number as it is, and a tensor as an attribute."""
        if isinstance(value, Tensor):
            return self.emit.constant(f"{node.name}_{name}", value.detach())
        if isinstance(value, Node):
            return self.as_is(value)
        return value  # type: ignore[return-value]

    def _keep(self, node: Node) -> None:
        path = str(node.target)
        called = self.model.called(node)
        self.emit.attributes[path] = self.model.constant(node) if called is None else called

    def _new(self, node: Node) -> Node:
        return self._values[node]

    def _float(self, node: Node) -> Node:
        quantizer = self._quantizers.get(node)
        if quantizer is not None:
            return self.emit.dequantize(self._values[node], quantizer)
        if node in self.unlowered:
            return self.emit.graph.call_method("dequantize", (self._values[node],))
        return self._values[node]

    def _quantized(self, node: Node) -> Node:
        quantizer = self._quantizers.get(node)
        if quantizer is None:
            return self._values[node]
        return self.emit.quantized_tensor(self._values[node], quantizer)


def relu(emit: Emitter, x: Argument) -> Node:
    """max(x, 0)"""
    return emit.call(torch.relu, x)
