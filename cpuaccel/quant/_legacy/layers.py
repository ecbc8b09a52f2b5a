"""Lowered models of single layers of a file, and of layers in a row."""

from __future__ import annotations

from torch import nn
from torch.fx import GraphModule

from cpuaccel import _loaded_models
from cpuaccel.quant._legacy.graphs import FileLowering, FileModel
from cpuaccel.quant._legacy.quantized_ops import QUANTIZED_OPS
from cpuaccel.quant._lowering.integers import UnpackedLayer
from cpuaccel.quant._lowering.walk import lower_graph


def lowered(model: FileModel, name: str) -> GraphModule:
    """Return the form of a graph with plain tensors, in eval mode: a class called `name`."""
    graph = lower_graph(FileLowering(model), name if name.isidentifier() else "Model")
    return _loaded_models.loaded(graph.eval())


def dynamic_linear(layer: UnpackedLayer, reduce_range: bool) -> GraphModule:
    """Return a linear layer that quantizes its input by its range, to 7 or 8 bits."""
    model = FileModel()
    x = model.graph.placeholder("input")
    packed = model.get_constant("linear", layer)
    y = model.graph.call_function(QUANTIZED_OPS["linear_dynamic"], (x, packed, reduce_range))
    model.graph.output(y)
    return lowered(model, "Linear")


def chain(modules: dict[str, nn.Module], name: str) -> GraphModule:
    """Return modules that are called one after the other, by path."""
    model = FileModel()
    value = model.graph.placeholder("input")
    for path, module in modules.items():
        value = model.call(path, module, (value,), {})
    model.graph.output(value)
    return lowered(model, name)
