"""Sums and products behind the layer that one of their operands comes from."""

from __future__ import annotations

from torch.fx import Node

from cpuaccel.quant import fused
from cpuaccel.quant._fusion.aliases import shared_and_written
from cpuaccel.quant._fusion.elementwise import op_name
from cpuaccel.quant._fusion.layers import layer_of
from cpuaccel.quant._fusion.model import Model, watched
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
_TABLES = {fused.Conv2dTable: "conv2d", fused.LinearTable: "linear"}


def put_binary_ops(model: Model) -> None:
    """Put each sum and product behind the layer of one operand, where nothing else uses that."""
    written = shared_and_written(model)
    for node in list(model.graph.nodes):
        if op_name(node.target) not in _OPS or len(node.args) != 4 or node.kwargs:
            continue
        operands = [operand for operand in node.args[:2] if isinstance(operand, Node)]
        if len(operands) != 2 or operands[0] is operands[1] or node in written:
            continue
        # The later one: what it is added to is there by then, and in the cache for longer.
        for own in sorted(operands, reverse=True):
            source = _layer_operand(model, own)
            if list(own.users) == [node] and source is not None and source not in written:
                _fuse(model, node, own, operands[1 - operands.index(own)], source)
                break


def _layer_operand(model: Model, node: Node) -> Node | None:
    """Return what the layer `node`, with a table or without, reads."""
    module = model.called(node)
    if type(module) in _TABLES and not watched(module):
        return node.all_input_nodes[0]
    layer = layer_of(model, node)
    return layer.operand if layer is not None else None


def _fuse(model: Model, node: Node, own: Node, other: Node, source: Node) -> None:
    op, then_relu = _OPS[op_name(node.target)]
    scale, zero_point = model.number(node.args[2]), model.number(node.args[3])
    if scale is None or zero_point is None:
        return
    last = {"scale": float(scale), "zero_point": int(zero_point), "then_relu": then_relu}
    table = model.called(own)
    layer = layer_of(model, own)
    if isinstance(table, fused.FusedTable):
        arguments = (table._packed_params, table.own_scale, table.own_zero_point, table.relu)
        module = _MODULES[table._kind, op](
            *arguments,
            table=table.table,
            table_scale=table.scale,
            table_zero_point=table.zero_point,
            **last,
            ops=(*table.ops, name_of(model, node)),
            detail=table.detail,
        )
    elif layer is not None:
        module = _MODULES[layer.kind, op](
            *layer.arguments(),
            table=None,
            table_scale=layer.scale,
            table_zero_point=layer.zero_point,
            **last,
            ops=(name_of(model, own), name_of(model, node)),
            detail=layer.detail,
        )
    path = model.path_for([own], f"fused_{node.name}")
    with model.graph.inserting_before(node):
        call = model.insert_call(path, module, (source, other))
    call.meta.update(node.meta)
    node.replace_all_uses_with(call)
    model.erase_unused([node, own])
