"""Replaces functions of one quantized tensor by a table, fused behind a layer if possible."""

from __future__ import annotations

import torch
from torch.fx import Node

from cpuaccel.quant import fused
from cpuaccel.quant._fusion.aliases import mutated_later
from cpuaccel.quant._fusion.layers import layer_of
from cpuaccel.quant._fusion.model import Model
from cpuaccel.quant._fusion.names import names_of
from cpuaccel.quant._fusion.regions import Region, Values, all_values, find_regions
from cpuaccel.quant._fusion.strides import strides_matter

_TABLES: dict[str, type[fused.FusedTable]] = {
    "conv2d": fused.Conv2dTable,
    "linear": fused.LinearTable,
}


def put_tables(model: Model) -> None:
    """Replace what is computed from one quint8 tensor by a table, or remove it.

    What changes nothing is removed. A table goes behind the layer that computes the tensor, if
    nothing else uses the tensor. Otherwise it becomes an op of its own, if that saves an op.
    """
    values, regions = find_regions(model)
    now: dict[Node, Node] = {}
    for region in regions:
        source = now.get(region.source, region.source)
        for result in region.results:
            steps = _steps(region, result)
            if _changes_nothing(model, values, region, source, result):
                now[result] = source
            elif _alone(region, source) and layer_of(model, source) is not None:
                now[result] = _put_behind_layer(model, values, source, steps)
            elif len(steps) > 1:
                now[result] = _put_table(model, values, source, steps)
            else:
                continue
            now[result].meta.update(result.meta)
            result.replace_all_uses_with(now[result])
            model.erase_unused([*reversed(steps), source])


def _alone(region: Region, source: Node) -> bool:
    """Return whether the source, as it is now, is used for one result and nothing else."""
    inside = all(user in region.nodes for user in source.users)
    return inside and len(region.results) == 1 and not region.floats


def _steps(region: Region, result: Node) -> list[Node]:
    """Return the nodes of the region that compute `result`, in order; it is the last."""
    needed = {result}
    for node in reversed(region.nodes):
        if node in needed:
            needed.update(node.all_input_nodes)
    return [node for node in region.nodes if node in needed]


def _changes_nothing(
    model: Model, values: Values, region: Region, source: Node, result: Node
) -> bool:
    quantizer = values.quantizer(region.source)
    if quantizer is None or values.quantizer(result) != quantizer:
        return False
    value = values.values[result].int_repr()
    if not torch.equal(value, all_values(*quantizer).int_repr()):
        return False
    # The result is a tensor of its own, dense; the source may be a view.
    if model.is_view_op(source) and strides_matter(model, result):
        return False
    return not mutated_later(model, result)


def _put_behind_layer(model: Model, values: Values, source: Node, steps: list[Node]) -> Node:
    layer = layer_of(model, source)
    assert layer is not None
    value = values.values[steps[-1]]
    nodes = [source, *steps]
    module = _TABLES[layer.kind](
        *layer.arguments(),
        table=value.int_repr(),
        scale=value.q_scale(),
        zero_point=value.q_zero_point(),
        ops=names_of(model, nodes),
        detail=layer.detail,
    )
    path = model.path_for([source], f"fused_{source.name}")
    with model.graph.inserting_before(source):
        return model.insert_call(path, module, (layer.operand,))


def _put_table(model: Model, values: Values, source: Node, steps: list[Node]) -> Node:
    value = values.values[steps[-1]]
    module = fused.QuantizedTable(
        value.int_repr(),
        value.q_scale(),
        value.q_zero_point(),
        names_of(model, steps),
    )
    path = model.path_for(steps, f"fused_{steps[-1].name}")
    with model.graph.inserting_before(steps[-1]):
        return model.insert_call(path, module, (source,))
