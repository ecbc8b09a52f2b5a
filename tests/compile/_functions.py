"""Patterns of a layer with an elementwise op after it, with and without a bias."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from compile._compiled import Net
from compile._patterns import Partitions, Pattern, conv, image, partitions


@dataclass(frozen=True)
class Function:
    """An elementwise function, and the oneDNN ops that compute it."""

    name: str
    function: Callable[[Tensor], Tensor]
    kinds: str
    is_quantized: bool = False
    """Whether convert_fx quantizes its result: then it is part of the layer, also the last one."""
    is_limit: bool = False
    """Whether clamping after rounding gives the same: then it is part of PT2E's layer."""
    lowered: str = ""
    """The kinds of convert_fx's model, if they differ."""
    layers: tuple[str, ...] = ()
    """The int8 layers whose kernels include it."""


_BOTH = ("q_conv", "q_linear")
_PRODUCT = ("q_linear",)


FUNCTIONS = [
    Function("relu", F.relu, "ReLU", is_quantized=True, is_limit=True, layers=_BOTH),
    Function("relu6", F.relu6, "Clamp", is_quantized=True, is_limit=True),
    Function("hardtanh", lambda x: F.hardtanh(x, -0.5, 0.75), "Clamp", True, True),
    Function("clamp_min", lambda x: x.clamp_min(0.1), "Clamp", is_limit=True),
    Function("clamp above -inf", lambda x: torch.clamp(x, -math.inf), "Clamp", True, True),
    Function("clamp above -5", lambda x: torch.clamp(x, min=-5), "Clamp", True, True),
    Function("clamp up to inf", lambda x: torch.clamp(x, 0, math.inf), "Clamp", True, True),
    Function("clamp on both sides", lambda x: torch.clamp(x, 0.1, 0.5), "Clamp", True, True),
    Function("clamp below 0.2", lambda x: torch.clamp(x, max=0.2), "Clamp", True, True),
    Function("sigmoid", torch.sigmoid, "Sigmoid", is_quantized=True),
    Function("tanh", torch.tanh, "Tanh", is_quantized=True),
    Function("gelu", F.gelu, "GELU", layers=_PRODUCT),
    Function("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), "GELUTanh", layers=_PRODUCT),
    Function("silu", F.silu, "Sigmoid+Multiply", layers=_BOTH),
    Function(
        "x sigmoid(x)",
        lambda x: x * torch.sigmoid(x),
        "Sigmoid+Multiply",
        lowered="quantize {0} q_table q_mul {0} q_table q_mul dequantize",
    ),
    Function("hardswish", F.hardswish, "HardSwish", is_quantized=True, layers=_BOTH),
    Function(
        "x hardsigmoid(x)",
        lambda x: x * F.hardsigmoid(x),
        "HardSwish",
        lowered="quantize {0} q_table q_mul {0} q_table q_mul dequantize",
    ),
    Function("hardsigmoid", F.hardsigmoid, "HardSigmoid", is_quantized=True),
    Function("leaky_relu", lambda x: F.leaky_relu(x, 0.2), "LeakyReLU", is_quantized=True),
    Function("elu", lambda x: F.elu(x, 0.7), "Elu", is_quantized=True),
    Function("abs", torch.abs, "Abs"),
    Function("square", torch.square, "Square"),
    Function("x x", lambda x: x * x, "Square", lowered="quantize {0} q_mul {0} q_mul dequantize"),
    Function("exp", torch.exp, "Exp"),
    Function("mish", F.mish, "Mish"),
]
"""Without round, which turns an error of the last bit into a whole step; test_patterns has that."""


def _pattern(function: Function, layer: str) -> Pattern:
    convolves = layer == "Convolution"
    layers = _convolutions if convolves else _products
    f = function.function
    integers = "q_conv" if convolves else "q_linear"
    return Pattern(
        f"{layer}, {function.name}",
        lambda: Net(lambda self, x: f(self.b(f(self.a(x)))), **layers()),
        (image(),) if convolves else ((5, 24),),
        partitions(f"{layer}+{function.kinds} {layer}+{function.kinds}"),
        partitions(_lowered(function).format(integers)),
        _pt2e(function, integers),
    )


def _convolutions() -> dict[str, nn.Module]:
    return {"a": conv(), "b": conv(bias=False)}


def _products() -> dict[str, nn.Module]:
    return {"a": nn.Linear(24, 40), "b": nn.Linear(40, 24, bias=False)}


def _lowered(function: Function) -> str:
    """Return the steps; a function of integers is a table of 256 values in the layer's kernel."""
    if function.lowered:
        return function.lowered
    last = "" if function.is_quantized else _alone(function)
    return f"quantize {{0}} {{0}} dequantize {last}"


def _pt2e(function: Function, layer: str) -> Partitions:
    """Return the steps; the workflow puts no quantizer between a layer and the function.

    So the layer includes only functions that may follow the rounding, or that its kernels apply to
    floats.
    """
    last = "" if layer in function.layers else _alone(function)
    between = "" if function.is_limit or layer in function.layers else f"{last} quantize"
    return partitions(f"quantize {layer} {between} {layer} {last}")


def _alone(function: Function) -> str:
    """Return the ops that run a float function; oneDNN has no separate op for GELU's tanh form."""
    return "" if function.kinds == "GELUTanh" else function.kinds


PATTERNS = [
    _pattern(function, layer) for layer in ("Convolution", "MatMul") for function in FUNCTIONS
]
