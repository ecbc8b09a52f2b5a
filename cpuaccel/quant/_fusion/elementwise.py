"""Lists the elementwise functions that may become a table, and the ops that only move values.

A function belongs to the list if it computes each element of its result from the element at the
same place of its only tensor operand, by the same rule for all elements and calls. The same tensor
twice (`x * torch.sigmoid(x)`) is one operand, and numbers are not operands.
"""

from __future__ import annotations

import inspect
import operator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import Node

from cpuaccel._compat import OpOverload, OpOverloadPacket
from cpuaccel.quant._torch_ao import QuantizedOp, kind_of

_ARITHMETIC = ("abs", "add", "div", "mul", "neg", "pow", "square", "sub", "true_divide")
_CURVES = ("erf", "exp", "expm1", "log", "log1p", "reciprocal", "rsqrt", "sqrt")
_LIMITS = ("clamp", "clamp_max", "clamp_min", "maximum", "minimum")
_ACTIVATIONS = ("relu", "sigmoid", "tanh")

METHODS = frozenset(
    [
        *_ARITHMETIC,
        *_CURVES,
        *(name for name in _LIMITS if name.startswith("clamp")),
        *_ACTIVATIONS,
        *("abs_", "add_", "clamp_", "clamp_max_", "clamp_min_", "div_", "mul_", "neg_", "sub_"),
        *("relu_", "sigmoid_", "tanh_"),
        "clone",
        "dequantize",
    ]
)
"""Methods of a tensor."""

_TORCH = frozenset(
    [
        *(getattr(torch, name) for name in (*_ARITHMETIC, *_CURVES, *_LIMITS, *_ACTIVATIONS)),
        *(torch.relu_, torch.sigmoid_, torch.tanh_),
        # torch will remove these with its quantized dtypes.
        *(getattr(torch, name, None) for name in ("dequantize", "quantize_per_tensor")),
        *(operator.add, operator.iadd, operator.mul, operator.imul, operator.neg, operator.pow),
        *(operator.sub, operator.isub, operator.truediv, operator.itruediv),
        *(F.celu, F.elu, F.gelu, F.hardshrink, F.hardsigmoid, F.hardswish, F.hardtanh),
        *(F.leaky_relu, F.logsigmoid, F.mish, F.relu, F.relu6, F.selu, F.sigmoid, F.silu),
        *(F.softplus, F.softshrink, F.softsign, F.tanh, F.tanhshrink, F.threshold),
    ]
)

_QUANTIZED_FUNCTIONAL = frozenset(
    ["celu", "clamp", "elu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "threshold"]
)
"""Functions of torch.ao.nn.quantized.functional."""

_QUANTIZED_OPS = frozenset(
    f"quantized::{name}"
    for name in (
        *("add", "add_relu", "add_scalar", "add_scalar_relu", "mul", "mul_relu", "mul_scalar"),
        *("mul_scalar_relu", "celu", "clamp", "elu", "hardswish", "leaky_relu", "relu6"),
        "sigmoid",
    )
)

MODULES = frozenset(
    [
        *(nn.CELU, nn.ELU, nn.GELU, nn.Hardshrink, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh),
        *(nn.LeakyReLU, nn.LogSigmoid, nn.Mish, nn.ReLU, nn.ReLU6, nn.SELU, nn.SiLU, nn.Sigmoid),
        *(nn.Softplus, nn.Softshrink, nn.Softsign, nn.Tanh, nn.Tanhshrink, nn.Threshold),
    ]
)
"""Modules. Classes derived from them are excluded, because they may do anything."""

_QUANTIZED_KINDS = frozenset(
    f"quantized.{name}"
    for name in ("DeQuantize", "ELU", "Hardswish", "LeakyReLU", "Quantize", "ReLU6", "Sigmoid")
)
"""The same of torch.ao."""

_SAME_MODULES = frozenset(
    [
        *(nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout),
        nn.FeatureAlphaDropout,
    ]
)
"""Modules that return their operand in evaluation mode."""

_SAME_FUNCTIONS: frozenset[Any] = frozenset(
    [F.alpha_dropout, F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.feature_alpha_dropout]
)
_SAME_NAMES = frozenset(["quantized::dropout", "torchvision.ops.stochastic_depth.stochastic_depth"])
"""Functions that return their operand if their argument `training` is False."""

VIEW_METHODS = frozenset(
    [
        *("chunk", "contiguous", "flatten", "permute", "reshape", "split", "squeeze", "transpose"),
        *("unflatten", "unsqueeze", "view"),
    ]
)
VIEW_FUNCTIONS: frozenset[Any] = frozenset(
    [
        *(torch.chunk, torch.flatten, torch.permute, torch.reshape, torch.split, torch.squeeze),
        *(torch.transpose, torch.unflatten, torch.unsqueeze, operator.getitem),
    ]
)
VIEW_MODULES: frozenset[type[nn.Module]] = frozenset([nn.Flatten, nn.Unflatten])
"""Ops that only move values: they give the same result before and after a table."""


def op_name(target: object) -> str:
    """Return the name of a torch op, such as `quantized::add`, or an empty string."""
    if isinstance(target, OpOverload):
        return str(target._schema.name)
    if isinstance(target, OpOverloadPacket):
        return str(target._qualified_op_name)
    return target.name if isinstance(target, QuantizedOp) else ""


def is_elementwise(node: Node, module: nn.Module | None) -> bool:
    """Return whether `node`, which may call `module`, is on the list of elementwise functions."""
    if node.op == "call_module":
        is_listed = type(module) in MODULES or kind_of(module) in _QUANTIZED_KINDS
        return is_listed or is_same(node, module)
    if node.op == "call_method":
        return node.target in METHODS
    if node.op == "call_function":
        target: Any = node.target
        return (
            op_name(target) in _QUANTIZED_OPS
            or among(target, _TORCH)
            or _is_quantized_functional(target)
            or is_same(node, module)
        )
    return False


def _is_quantized_functional(target: object) -> bool:
    owner = getattr(target, "__module__", "")
    return owner == "torch.ao.nn.quantized.functional" and (
        getattr(target, "__name__", "") in _QUANTIZED_FUNCTIONAL
    )


def is_same(node: Node, module: nn.Module | None) -> bool:
    """Return whether `node` returns its operand, as dropouts do in evaluation mode."""
    if node.op == "call_module":
        if kind_of(module) == "quantized.Dropout":
            return True
        return type(module) in _SAME_MODULES and not getattr(module, "training", False)
    if node.op != "call_function":
        return False
    target: Any = node.target
    name = op_name(target) or (
        f"{getattr(target, '__module__', '')}.{getattr(target, '__qualname__', '')}"
    )
    return (among(target, _SAME_FUNCTIONS) or name in _SAME_NAMES) and (
        argument(node, "training") is False
    )


def is_view_op(node: Node, module: nn.Module | None) -> bool:
    """Return whether `node` only moves the values of its first operand."""
    if node.op == "call_module":
        return type(module) in VIEW_MODULES
    if node.op == "call_method":
        return node.target in VIEW_METHODS
    return node.op == "call_function" and among(node.target, VIEW_FUNCTIONS)


def mutates(node: Node, module: nn.Module | None) -> bool:
    """Return whether `node` mutates an operand: `relu_`, `inplace=True`, `out=`, `+=`."""
    if node.op == "call_module":
        return getattr(module, "inplace", False) is True
    if "out" in node.kwargs:
        return True
    if node.op == "call_method":
        name = str(node.target)
        return name.endswith("_") and not name.endswith("__")
    if node.op != "call_function":
        return False
    target: Any = node.target
    if isinstance(target, OpOverload):
        return bool(target._schema.is_mutable)
    name = str(getattr(target, "__name__", ""))
    in_place_operator = target is getattr(operator, name, None) and name in _IN_PLACE_OPERATORS
    return (
        in_place_operator
        or (name.endswith("_") and not name.endswith("__"))
        or argument(node, "inplace") is True
    )


_IN_PLACE_OPERATORS = frozenset(
    [
        *("iadd", "iand", "ifloordiv", "ilshift", "imatmul", "imod", "imul", "ior", "ipow"),
        *("irshift", "isub", "itruediv", "ixor", "delitem", "setitem"),
    ]
)


def argument(node: Node, name: str) -> object:
    """Return the argument `name` of the function that `node` calls, or its default, or None."""
    target: Any = node.target
    try:
        signature = inspect.signature(target)
        bound = signature.bind(*node.args, **node.kwargs)
    except (TypeError, ValueError):
        return _schema_argument(node, name)
    bound.apply_defaults()
    value: object = bound.arguments.get(name)
    return value if name in signature.parameters else _schema_argument(node, name)


def _schema_argument(node: Node, name: str) -> object:
    target: Any = node.target
    if name in node.kwargs:
        return node.kwargs[name]
    for schema in schemas(target):
        for index, expected in enumerate(schema.arguments):
            if expected.name == name and index < len(node.args):
                return node.args[index]
    return None


def schemas(target: object) -> list[Any]:
    """Return the schemas of a torch op; an empty list for any other function."""
    if isinstance(target, OpOverload):
        return [target._schema]
    if isinstance(target, OpOverloadPacket):
        names: list[str] = target.overloads()  # type: ignore[no-untyped-call]
        return [getattr(target, name)._schema for name in names]
    return target.schemas if isinstance(target, QuantizedOp) else []


def among(target: object, functions: frozenset[Any]) -> bool:
    """Return whether `target`, which a node calls, is one of `functions`."""
    try:
        return target in functions
    except TypeError:  # not hashable
        return False
