"""Replaces the quantized layers behind which nothing could be fused."""

from __future__ import annotations

from cpuaccel.quant import fused
from cpuaccel.quant._fusion.layers import layer_of
from cpuaccel.quant._fusion.model import Model
from cpuaccel.quant._fusion.names import name_of

_MODULES: dict[str, type[fused.FusedLayer]] = {"conv2d": fused.Conv2d, "linear": fused.Linear}


def put_layers(model: Model) -> None:
    """Replace the remaining torch layers by cpuaccel modules.

    These call the same op, but without torch's conversion of packed weights from Python, which
    takes longer than many layers.
    """
    for node in list(model.graph.nodes):
        layer = layer_of(model, node)
        if layer is None:
            continue
        module = _MODULES[layer.kind](
            layer.packed,
            layer.relu,
            scale=layer.scale,
            zero_point=layer.zero_point,
            ops=(name_of(model, node),),
            detail=layer.detail,
        )
        path = model.path_for([node], f"fused_{node.name}")
        with model.graph.inserting_before(node):
            call = model.insert_call(path, module, (layer.operand,))
        call.meta.update(node.meta)
        node.replace_all_uses_with(call)
        model.erase_unused([node])
