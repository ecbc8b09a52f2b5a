"""Recognizes models that torch.ao quantized (convert_fx, convert), and snapshots what they hold."""

from __future__ import annotations

import operator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.fx import GraphModule

from cpuaccel._compat import ConvNd
from cpuaccel.compile.capture.module_attributes import AttributeSnapshot
from cpuaccel.compile.passes.aliasing import attribute_of
from cpuaccel.quant._eager_modules import holds_quantized, scales_of
from cpuaccel.quant._torch_ao import QUANTIZES

_FLOAT_LAYERS = (
    *(nn.Linear, nn.Bilinear, nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention),
    ConvNd,
)
_FLOAT_PRODUCTS = (
    *(torch.matmul, torch.bmm, torch.mm, torch.addmm, torch.baddbmm, torch.einsum, operator.matmul),
    *(F.linear, F.conv1d, F.conv2d, F.conv3d, F.scaled_dot_product_attention),
    *(F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d),
    *("matmul", "bmm", "mm", "addmm", "baddbmm"),
)


def is_converted(model: nn.Module) -> bool:
    """Say whether a model, or a part of it, was quantized by torch.ao and is in eval mode."""
    if not model.training and holds_quantized(model):
        return True
    parts = [part for part in model.modules() if isinstance(part, GraphModule)]
    return any(not part.training and _calls_quantized(part) for part in parts)


def has_int8_rows(model: nn.Module) -> bool:
    """Say whether layers of a model round what they read to int8.

    These are layers of torchao and torch.ao, IntxLinear and Int8Linear. Rows that differ in the
    last bit may become integers that differ by one.
    """
    for module in model.modules():
        weight = getattr(module, "weight", None)
        if getattr(module, "int8_activations", False) or any(
            getattr(weight, name, None) is not None for name in _OF_ROWS
        ):
            return True
    return is_converted(model)


_OF_ROWS = ("act_quant_kwargs", "activation_quantization")
"""Attributes of torchao's weights that say how rows are rounded."""


def _calls_quantized(part: GraphModule) -> bool:
    # Importing _fusion takes most of the import time, and only such models need it.
    from cpuaccel.quant._fusion.elementwise import op_name

    if any("quantized" in type(module).__module__ for module in part.modules()):
        return True
    # PT2E models call quantized_decomposed ops on plain tensors: they are lowered already.
    return any(
        node.target in QUANTIZES or op_name(node.target).startswith("quantized::")
        for node in part.graph.nodes
    )


def snapshot_of(model: nn.Module) -> AttributeSnapshot:
    """Return a snapshot of a model, to tell whether what was made from it is still valid."""
    # Lowering reads the values of tensors with one element: scales, zero points.
    numbers = [
        value
        for part in model.modules()
        if isinstance(part, GraphModule) and not part.training and _calls_quantized(part)
        for node in part.graph.find_nodes(op="get_attr")
        if isinstance(value := attribute_of(part, node), Tensor) and value.numel() == 1
    ]
    return AttributeSnapshot(model, [*numbers, *scales_of(model)])


def has_float_layers(model: nn.Module) -> bool:
    """Say whether autocast would change what a layer of the model computes."""
    if holds_quantized(model):  # its forward may multiply floats
        return True
    return any(isinstance(module, _FLOAT_LAYERS) for module in model.modules()) or any(
        node.target in _FLOAT_PRODUCTS
        for part in model.modules()
        if isinstance(part, GraphModule)
        for node in part.graph.nodes
    )
