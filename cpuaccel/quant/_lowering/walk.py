"""Lowers a graph for `cpuaccel.quant.lower`, node by node, by the first rule that applies."""

from __future__ import annotations

from types import BuiltinFunctionType
from typing import Any

from torch import nn
from torch.fx import GraphModule, Node

from cpuaccel import _log
from cpuaccel.quant._fusion import elementwise
from cpuaccel.quant._fusion.model import Model, has_hooks
from cpuaccel.quant._lowering import embedding, layers, ops, tensors
from cpuaccel.quant._lowering.lowering import Lowering
from cpuaccel.quant._lowering.values import Quantizer, plain_dtype
from cpuaccel.quant._torch_ao import kind_of

UNLOWERED = "cpuaccel_left"
"""Key in `meta` of a lowered model: the nodes that still run on torch's quantized tensors."""


def lower_module(module: GraphModule) -> GraphModule:
    """Return the form of a convert_fx graph with plain tensors. It shares the float tensors."""
    low = Lowering(Model(module))
    lowered = lower_graph(low, type(module).__name__)
    lowered.training = module.training
    lowered.meta[UNLOWERED] = {node.name: called for node, called in low.unlowered.items()}
    for node, called in low.unlowered.items():
        _log.logger.warning("cpuaccel.quant.lower: %s (%s) is not lowered", node.name, called)
    return lowered


def lower_graph(low: Lowering, name: str) -> GraphModule:
    """Return the form of `low.model` with plain tensors: a module whose class is called `name`."""
    for node in low.model.graph.nodes:
        if node.op == "output":
            low.emit.graph.output(low.as_result(node.args[0]), node.type)
        else:
            _lower_node(low, node)
    graph = low.emit.graph
    # Keeps how the graph packs arguments and results into dicts and the like.
    graph.set_codegen(low.model.graph._codegen)
    lowered = GraphModule(low.emit.attributes, graph, name)
    lowered.graph.eliminate_dead_code()
    # Drops attributes that are no longer read.
    return GraphModule(low.emit.attributes, lowered.graph, name)


def _lower_node(low: Lowering, node: Node) -> None:
    module = low.model.called(node)
    if node.op in ("placeholder", "get_attr"):
        low.put(node, low.copy(node, low.as_is))
    elif not _by_list(low, node, module):
        if not low.is_quantized(node):
            low.put(node, low.copy(node, low.as_is))
        elif low.reads_unlowered(node) or not tensors.lower(low, node, module):
            low.put_unlowered(node, low.copy(node, low.as_quantized), _called(node, module))
    if elementwise.mutates(node, module) and node.all_input_nodes:
        # Nodes that read the operand from here on read the result.
        first = node.all_input_nodes[0]
        value: Any = low.as_is(node)
        low.put(first, value, low.quantizer(node))


def _by_list(low: Lowering, node: Node, module: nn.Module | None) -> bool:
    """Lower a node that has a rule of its own, and return whether it has one."""
    if module is not None:
        return not has_hooks(module) and _by_module(low, node, module)
    if node.op == "call_method" and node.target == "dequantize":
        return _dequantize(low, node)
    if node.op == "call_function" and _is_quantize(node.target):
        arguments = [*node.args, *node.kwargs.values()]
        scale, zero_point, dtype = (low.number(value) for value in arguments[1:4])
        return _quantize(low, node, scale, zero_point, dtype)
    return _by_op(low, node, elementwise.op_name(node.target))


def _is_quantize(target: Any) -> bool:
    if isinstance(target, BuiltinFunctionType):
        return target.__name__ == "quantize_per_tensor"  # torch will remove the function
    return elementwise.op_name(target) == "aten::quantize_per_tensor"


def _by_module(low: Lowering, node: Node, module: Any) -> bool:
    kind = kind_of(module)
    if kind in layers.MODULES:
        layers.lower_module(low, node, module)
    elif kind in ops.MODULES:
        ops.lower_module(low, node, module)
    elif kind == "quantized.DeQuantize":
        return _dequantize(low, node)
    elif kind == "quantized.Quantize":
        return _quantize(low, node, module.scale, module.zero_point, module.dtype)
    elif kind == "quantized.ReLU6" and (quantizer := low.quantizer(node.args[0])):
        clamped = ops.SAME_QUANTIZER["quantized::relu6"](low.emit, low.as_float(node.args[0]))
        low.put_quantized(node, clamped, quantizer)
    elif kind in embedding.MODULES:
        return embedding.lower_module(low, node, module)
    else:
        return False
    return True


def _by_op(low: Lowering, node: Node, name: str) -> bool:
    if name in ops.SCALARS and len(node.args) == ops.OPERANDS_ONLY and not node.kwargs:
        ops.lower_scalar(low, node, name)
    elif name in layers.KINDS:
        layers.lower_op(low, node, name, _arguments(node))
    elif name in embedding.OPS:
        return embedding.lower_op(low, node)
    elif name in ops.OWN_QUANTIZER:
        ops.lower_op(low, node, name, _arguments(node))
    elif name in ops.SAME_QUANTIZER and (quantizer := low.quantizer(node.args[0])):
        operands = [low.as_float(value) for value in node.args]
        run = ops.SAME_QUANTIZER[name]
        low.put_quantized(node, run(low.emit, *operands, **node.kwargs), quantizer)
    else:
        return False
    return True


def _dequantize(low: Lowering, node: Node) -> bool:
    value: Any = low.as_float(node.args[0])
    low.put(node, value)
    return True


def _quantize(low: Lowering, node: Node, scale: Any, zero_point: Any, dtype: Any) -> bool:
    plain = plain_dtype(dtype)
    if plain is None:
        return False
    quantizer = Quantizer(float(scale), int(zero_point), plain)
    low.put_quantized(node, low.as_float(node.args[0]), quantizer)
    return True


def _arguments(node: Node) -> list[Any]:
    """Return all arguments of an op's schema, with its defaults."""
    schemas = elementwise.schemas(node.target)
    for schema in schemas:
        expected = schema.arguments
        if len(node.args) <= len(expected) and all(
            any(key == each.name for each in expected) for key in node.kwargs
        ):
            given = list(node.args)
            for each in expected[len(given) :]:
                given.append(node.kwargs.get(each.name, each.default_value))
            return given
    raise TypeError(
        f"cpuaccel.quant.lower: {node.name}: expected arguments that a schema of {node.target}"
        f" accepts, got {node.args}, {node.kwargs}"
    )


def _called(node: Node, module: nn.Module | None) -> str:
    return type(module).__name__ if module is not None else str(node.target)
