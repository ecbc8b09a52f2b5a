"""Fuses sums and products behind the layer that computes one of their operands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from cpuaccel.quant import fused
from cpuaccel.quant._fusion.aliases import shared_and_mutated
from cpuaccel.quant._fusion.elementwise import op_name
from cpuaccel.quant._fusion.layers import layer_of
from cpuaccel.quant._fusion.model import Model, has_hooks
from cpuaccel.quant._fusion.names import name_of

_OPS = {
    "quantized::add": ("add", False),
    "quantized::add_relu": ("add", True),
    "quantized::mul": ("mul", False),
    "quantized::mul_relu": ("mul", True),
}

_MODULES: dict[tuple[str, str], type[fused.FusedBinary]] = {
    ("conv2d", "add"): fused.Conv2dAdd,
    ("conv2d", "mul"): fused.Conv2dMul,
    ("linear", "add"): fused.LinearAdd,
    ("linear", "mul"): fused.LinearMul,
}


def put_binary_ops(model: Model) -> None:
    """Put each sum and product behind the layer of one operand, if that has no other user."""
    mutated = shared_and_mutated(model)
    for node in list(model.graph.nodes):
        if op_name(node.target) not in _OPS or len(node.args) != 4 or node.kwargs:
            continue
        operands = [operand for operand in node.args[:2] if isinstance(operand, Node)]
        if len(operands) != 2 or operands[0] is operands[1] or node in mutated:
            continue
        # The later operand first: by then the other one is computed, and it is in cache for longer.
        for operand in sorted(operands, reverse=True):
            producer = _producer(model, operand)
            if (
                list(operand.users) == [node]
                and producer is not None
                and producer.operand not in mutated
            ):
                _fuse(model, node, operand, producer, operands[1 - operands.index(operand)])
                break


@dataclass
class _Producer:
    """The layer behind which the op goes, with its table if it has one."""

    kind: str
    operand: Node
    layer: tuple[Any, ...]
    table: dict[str, Any]
    ops: tuple[str, ...]
    detail: str


def _producer(model: Model, node: Node) -> _Producer | None:
    module: Any = model.called(node)
    if type(module) in (fused.Conv2dTable, fused.LinearTable) and not has_hooks(module):
        return _Producer(
            module.kind,
            node.all_input_nodes[0],
            (module._packed_params, module.own_scale, module.own_zero_point, module.relu),
            {
                "table": module.table,
                "table_scale": module.scale,
                "table_zero_point": module.zero_point,
            },
            module.ops,
            module.detail,
        )
    layer = layer_of(model, node)
    if layer is None:
        return None
    no_table = {"table": None, "table_scale": layer.scale, "table_zero_point": layer.zero_point}
    ops = (name_of(model, node),)
    return _Producer(layer.kind, layer.operand, layer.arguments(), no_table, ops, layer.detail)


def _fuse(model: Model, node: Node, producer_node: Node, producer: _Producer, other: Node) -> None:
    op, then_relu = _OPS[op_name(node.target)]
    scale, zero_point = model.number(node.args[2]), model.number(node.args[3])
    if scale is None or zero_point is None:
        return
    module = _MODULES[producer.kind, op](
        *producer.layer,
        **producer.table,
        then_relu=then_relu,
        scale=float(scale),
        zero_point=int(zero_point),
        ops=(*producer.ops, name_of(model, node)),
        detail=producer.detail,
    )
    path = model.path_for([producer_node], f"fused_{node.name}")
    with model.graph.inserting_before(node):
        call = model.insert_call(path, module, (producer.operand, other))
    call.meta.update(node.meta)
    node.replace_all_uses_with(call)
    model.erase_unused([node, producer_node])
