"""Writes the lowered graph: quantize and dequantize in the form of PT2E models, and constants."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.fx.node import Argument

from cpuaccel import _compat
from cpuaccel._compat import quantized_decomposed
from cpuaccel.quant._lowering.values import Quantizer

_decomposed = quantized_decomposed()
_EPSILON = float(torch.finfo(torch.float32).eps)


class Emitter:
    """A graph that is being written, and the attributes that it gets."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.attributes: dict[str, Any] = {}

    def call(self, function: Callable[..., Any], *args: Argument, **kwargs: Argument) -> Node:
        """Call `function`."""
        return self.graph.call_function(function, args, kwargs)

    def constant(self, name: str, value: Tensor) -> Node:
        """Add `value` as an attribute whose name begins with `name`, and get it."""
        path = name.replace(".", "_")
        while path in self.attributes:
            path += "_"
        self.attributes[path] = value
        return self.graph.create_node("get_attr", path)

    def quantize(self, x: Argument, quantizer: Quantizer) -> Node:
        """clamp(round(x / scale) + zero_point)"""
        return self.call(
            _decomposed.quantize_per_tensor.default,
            *(x, quantizer.scale, quantizer.zero_point),
            *(*quantizer.limits, quantizer.dtype),
        )

    def dequantize(self, q: Argument, quantizer: Quantizer) -> Node:
        """(q - zero_point) * scale"""
        return self.call(
            _decomposed.dequantize_per_tensor.default,
            *(q, quantizer.scale, quantizer.zero_point),
            *(*quantizer.limits, quantizer.dtype),
        )

    def dequantize_channels(
        self, q: Node, scales: Node, zero_points: Node, axis: int, dtype: torch.dtype
    ) -> Node:
        """As dequantize, with a scale and a zero point for each index along `axis`."""
        limits = Quantizer(1.0, 0, dtype).limits
        return self.call(
            _decomposed.dequantize_per_channel.default,
            *(q, scales, zero_points, axis, *limits, dtype),
        )

    def quantize_dynamically(self, x: Argument, highest: int) -> Node:
        """Quantize x to 0..highest by its own range, and dequantize it again."""
        limits = (0, highest)
        chosen = self.call(_decomposed.choose_qparams.tensor, x, *limits, _EPSILON, torch.uint8)
        range_ = [self.call(operator.getitem, chosen, i) for i in (0, 1)]
        q = self.call(_decomposed.quantize_per_tensor.tensor, x, *range_, *limits, torch.uint8)
        return self.call(_decomposed.dequantize_per_tensor.tensor, q, *range_, *limits, torch.uint8)

    def quantized_tensor(self, q: Argument, quantizer: Quantizer) -> Node:
        """One of torch's quantized tensors, for nodes that are not lowered."""
        return self.call(_compat.quantized_tensor, q, quantizer.scale, quantizer.zero_point)
