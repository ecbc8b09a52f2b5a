"""Lowers torch's own ops, methods and modules that are called on quantized tensors."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import Node

from cpuaccel.quant._fusion import elementwise, keeping
from cpuaccel.quant._lowering.lowering import Lowering
from cpuaccel.quant._lowering.values import Quantizer

_SIZES = frozenset(["dim", "numel", "shape", "size", "stride", "ndimension", "is_contiguous"])
"""Methods and attributes that read no values."""

_KEEPING_FUNCTIONS = keeping.KEEPING_FUNCTIONS | {
    *(
        torch.adaptive_avg_pool1d,
        torch.avg_pool1d,
        F.avg_pool2d,
        F.avg_pool3d,
    ),
    *(F.adaptive_avg_pool1d, F.avg_pool1d, F.max_pool3d, torch.max_pool3d, F.upsample),
    *(
        F.hardtanh,
        F.hardtanh_,
        F.pad,
        F.relu,
        F.relu6,
        torch.relu,
        torch.relu_,
        torch.clamp,
        torch.stack,
    ),
}
_KEEPING_METHODS = keeping.KEEPING_METHODS | {"clamp", "relu", "relu_"}
_KEEPING_MODULES = keeping.KEEPING_MODULES | {
    *(nn.AdaptiveAvgPool1d, nn.AvgPool1d, nn.MaxPool3d, nn.Upsample),
    *(nn.Hardtanh, nn.ReLU, nn.ReLU6),
}
"""What returns a result with the quantizer of its (first) operand."""

_JOINING: frozenset[Any] = frozenset([torch.cat, torch.concat, torch.concatenate, torch.stack])
"""The functions among these that only join tensors."""

_FIXED = {
    "sigmoid": (1 / 256, 0),
    "hardsigmoid": (1 / 256, 0),
    "tanh": (2 / 256, 128),
}
"""Functions whose result is quint8 with a fixed quantizer, whatever their operand is."""
_FIXED_MODULES = {nn.Sigmoid: "sigmoid", nn.Hardsigmoid: "hardsigmoid", nn.Tanh: "tanh"}

_VIEW_METHODS = elementwise.VIEW_METHODS | {
    *("clone", "detach", "expand", "narrow", "repeat", "repeat_interleave", "select", "t"),
}
_VIEW_FUNCTIONS = elementwise.VIEW_FUNCTIONS | {
    *(torch.repeat_interleave, torch.channel_shuffle, F.channel_shuffle, torch.clone, torch.narrow),
    *(F.pixel_shuffle, F.pixel_unshuffle, torch.select, torch.movedim, torch.swapaxes),
}
_VIEW_MODULES = elementwise.VIEW_MODULES | {
    *(nn.Identity, nn.PixelShuffle, nn.PixelUnshuffle, nn.ChannelShuffle),
}
"""What does the same on integers."""


def lower(low: Lowering, node: Node, module: nn.Module | None) -> bool:
    """Lower a call on integers and return True; return False if it is none of these."""
    if _reads_sizes(node):
        low.put(node, low.copy(node, low.as_is))
    elif elementwise.is_same(node, module):
        operand = node.all_input_nodes[0]
        value: Any = low.as_is(operand)
        low.put(node, value, low.quantizer(operand))
    elif _moves(low, node, module):
        low.put(node, low.copy(node, low.as_is), low.quantizer(node.args[0]))
    elif _among(node, module, _KEEPING_FUNCTIONS, _KEEPING_METHODS, _KEEPING_MODULES):
        quantizer = low.quantizer(node.args[0])
        if quantizer is None or _asks_for_type(node):
            return False
        low.put_quantized(node, low.copy(node, low.as_float), quantizer)
    elif name := _fixed(node, module):
        quantizer = low.quantizer(node.args[0])
        if quantizer is None or quantizer.dtype != torch.uint8:
            return False
        low.put_quantized(node, low.copy(node, low.as_float), Quantizer(*_FIXED[name]))
    else:
        return False
    return True


def _among(
    node: Node,
    module: nn.Module | None,
    functions: frozenset[Any],
    methods: frozenset[str],
    modules: frozenset[type[nn.Module]],
) -> bool:
    if node.op == "call_module":
        return type(module) in modules
    if node.op == "call_method":
        return node.target in methods
    return elementwise.among(node.target, functions)


def _reads_sizes(node: Node) -> bool:
    if node.op == "call_method":
        return node.target in _SIZES
    return node.target is getattr and node.args[1] in _SIZES


def _moves(low: Lowering, node: Node, module: nn.Module | None) -> bool:
    """Return whether `node` only moves or joins integers of one quantizer."""
    if _among(node, module, _VIEW_FUNCTIONS, _VIEW_METHODS, _VIEW_MODULES):
        return True
    if node.op != "call_function" or node.target not in _JOINING:
        return False
    parts: Any = node.args[0]
    if not isinstance(parts, (list, tuple)):
        return False
    quantizers = {low.quantizer(part) for part in parts}
    return len(quantizers) == 1 and None not in quantizers


def _asks_for_type(node: Node) -> bool:
    return any(isinstance(arg, torch.dtype) for arg in (*node.args, *node.kwargs.values()))


def _fixed(node: Node, module: nn.Module | None) -> str:
    if node.op == "call_module":
        return _FIXED_MODULES.get(type(module), "")
    name = str(node.target if node.op == "call_method" else getattr(node.target, "__name__", ""))
    return name.rstrip("_") if name.rstrip("_") in _FIXED else ""
