"""Recognizes layers that ops can be fused behind, and pools and other ops that keep a quantizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.ao.nn.intrinsic.quantized as nniq
import torch.ao.nn.quantized as nnq
from torch import nn
from torch.fx import Node

from cpuaccel.quant import fused
from cpuaccel.quant._fusion.elementwise import op_name
from cpuaccel.quant._fusion.keeping import KEEPING_FUNCTIONS, KEEPING_METHODS, KEEPING_MODULES
from cpuaccel.quant._fusion.model import Model, has_hooks


@dataclass(frozen=True)
class Layer:
    """A quantized convolution or linear layer of a graph."""

    kind: str
    """`conv2d` or `linear`."""
    relu: bool
    operand: Node
    """The node that it reads."""
    packed: Any
    """Its packed weights."""
    scale: float
    zero_point: int
    detail: str
    """The `extra_repr` of its module, or its quantizer."""

    def arguments(self) -> tuple[Any, ...]:
        """Return the arguments that a module of `cpuaccel.quant.fused` takes for its layer."""
        return self.packed, self.scale, self.zero_point, self.relu


_MODULES: dict[type[nn.Module], tuple[str, bool]] = {
    nnq.Conv2d: ("conv2d", False),
    nniq.ConvReLU2d: ("conv2d", True),
    nnq.ConvTranspose2d: ("conv2d", False),
    nnq.Linear: ("linear", False),
    nniq.LinearReLU: ("linear", True),
}

_OPS = {
    "quantized::conv2d": ("conv2d", False),
    "quantized::conv2d_relu": ("conv2d", True),
    "quantized::conv_transpose2d": ("conv2d", False),
    "quantized::linear": ("linear", False),
    "quantized::linear_relu": ("linear", True),
}
_OP_ARGUMENTS = 4
"""Operand, packed weights, scale, zero point; older forms of the ops have more."""

_OWN_QUANTIZER_MODULES = frozenset(
    [
        *_MODULES,
        *(nnq.BatchNorm2d, nnq.BatchNorm3d, nnq.Conv1d, nnq.Conv3d, nnq.ConvTranspose1d),
        *(nnq.ConvTranspose3d, nnq.GroupNorm, nnq.InstanceNorm1d, nnq.InstanceNorm2d),
        *(nnq.InstanceNorm3d, nnq.LayerNorm, nnq.PReLU, nniq.BNReLU2d, nniq.BNReLU3d),
        *(nniq.ConvAdd2d, nniq.ConvAddReLU2d, nniq.ConvReLU1d, nniq.ConvReLU3d),
        *(nniq.LinearLeakyReLU, nniq.LinearTanh),
    ]
)

_KEEPING_QUANTIZED = KEEPING_FUNCTIONS | {nnq.functional.interpolate}
"""Functions whose result has the quantizer of their quantized operands."""


def layer_of(model: Model, node: Node) -> Layer | None:
    """Return what kind of layer `node` is, or None if nothing can be fused behind it."""
    if node.kwargs or not node.args or not isinstance(node.args[0], Node):
        return None
    if node.op == "call_module":
        return _module_layer(model, node, node.args[0])
    return _function_layer(model, node, node.args[0])


def _module_layer(model: Model, node: Node, operand: Node) -> Layer | None:
    module: Any = model.called(node)
    if type(module) not in _MODULES or has_hooks(module) or len(node.args) != 1:
        return None
    kind, relu = _MODULES[type(module)]
    if getattr(module, "padding_mode", "zeros") != "zeros":  # pads by itself, before the op
        return None
    packed = module._packed_params if kind == "conv2d" else module._packed_params._packed_params
    quantizer = float(module.scale), int(module.zero_point)
    return Layer(kind, relu, operand, packed, *quantizer, module.extra_repr())


def _function_layer(model: Model, node: Node, operand: Node) -> Layer | None:
    name = op_name(node.target)
    if name not in _OPS or len(node.args) != _OP_ARGUMENTS:
        return None
    weights, scale, zero_point = (
        node.args[1],
        model.number(node.args[2]),
        model.number(node.args[3]),
    )
    if not isinstance(weights, Node) or weights.op != "get_attr":
        return None
    if scale is None or zero_point is None:
        return None
    quantizer = float(scale), int(zero_point)
    detail = f"scale={quantizer[0]}, zero_point={quantizer[1]}"
    return Layer(*_OPS[name], operand, model.constant(weights), *quantizer, detail)


def has_own_quantizer(module: nn.Module | None) -> bool:
    """Return whether the result of `module` is quint8 with its own `scale` and `zero_point`."""
    if type(module) is nnq.Quantize:
        return bool(module.dtype == torch.quint8)
    return type(module) in _OWN_QUANTIZER_MODULES or isinstance(module, fused.Fused)


def keeps_quantizer(model: Model, node: Node) -> bool:
    """Return whether the result of `node` has the quantizer that all its operands have."""
    if model.is_view_op(node):
        return True
    if node.op == "call_module":
        return type(model.called(node)) in KEEPING_MODULES
    if node.op == "call_method":
        return node.target in KEEPING_METHODS
    if node.op != "call_function":
        return False
    return node.target in _KEEPING_QUANTIZED or getattr(node.target, "__name__", "") == "fn"
