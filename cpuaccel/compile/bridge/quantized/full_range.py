"""Rewrites quantizers of int8, and of a part of the 8-bit integers, to uint8 from 0 to 255.

The engine's steps have uint8 activations of the full range. int8 values become uint8 values that
are 128 higher, as is their zero point, so that the same numbers are dequantized. A quantizer of
fewer integers (quant_min, quant_max) becomes one of all, and a clamp between a dequantize and a
quantize, which the steps apply as a table of 256 entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, Node

from cpuaccel._inductor.nodes import computed
from cpuaccel.compile.bridge.quantized.tensors import (
    CODES,
    DEQUANTIZE,
    QUANTIZE,
    has_constant_quantizer,
    source_of,
)
from cpuaccel.compile.bridge.shapes import PERMUTES, RESHAPES
from cpuaccel.compile.bridge.translation import Translation

_aten: Any = torch.ops.aten

_VIEW_OPS = frozenset({*RESHAPES, *PERMUTES, _aten.clone.default})
"""Ops that copy integers without changing them."""

_HIGHEST = CODES - 1


@dataclass(frozen=True)
class _Range:
    """A quantizer's scale, and its zero point and limits as uint8."""

    scale: float
    zero_point: int
    lowest: int
    highest: int

    @property
    def is_full(self) -> bool:
        return (self.lowest, self.highest) == (0, _HIGHEST)

    def arguments(self) -> tuple[Any, ...]:
        """Return the arguments of a quantize or dequantize of the full range."""
        return self.scale, self.zero_point, 0, _HIGHEST, torch.uint8

    def limits(self) -> tuple[float, float]:
        """Return the smallest and the largest real value."""
        return (
            (self.lowest - self.zero_point) * self.scale,
            (self.highest - self.zero_point) * self.scale,
        )


def use_full_range(graph: Graph, translation: Translation) -> None:
    """Rewrite each quantize in place whose integers only dequantizes read, through view ops.

    Quantizers of weights stay as they are.
    """
    for node in graph.find_nodes(op="call_function", target=QUANTIZE):
        if not has_constant_quantizer(node) or translation.is_constant(source_of(node)):
            continue
        found = _range_of(node)
        if found.is_full and node.args[5] == torch.uint8:
            continue
        readers = _readers(node)
        if readers is not None and 0 <= found.zero_point <= _HIGHEST:
            _rewrite(graph, node, found, *readers)


def _range_of(node: Node) -> _Range:
    given: Any = node.args
    scale, *integers, dtype = given[1:6]
    shift = CODES // 2 if dtype == torch.int8 else 0
    zero_point, lowest, highest = (int(each) + shift for each in integers)
    return _Range(float(scale), zero_point, lowest, highest)


def _readers(quantize: Node) -> tuple[list[Node], list[Node]] | None:
    """Return the view ops and the dequantizes that read its integers; None if other nodes do."""
    view_ops: list[Node] = []
    dequantizes: list[Node] = []
    stack = [quantize]
    while stack:
        for user in stack.pop().users:
            if user.target is DEQUANTIZE and has_constant_quantizer(user):
                dequantizes.append(user)
            elif user.target in _VIEW_OPS:
                view_ops.append(user)
                stack.append(user)
            else:
                return None
    in_range = all(0 <= _range_of(each).zero_point <= _HIGHEST for each in dequantizes)
    return (view_ops, dequantizes) if in_range and dequantizes else None


def _rewrite(
    graph: Graph, quantize: Node, found: _Range, view_ops: list[Node], dequantizes: list[Node]
) -> None:
    quantize.args = (quantize.args[0], *found.arguments())
    quantize.meta = {**quantize.meta, "val": computed(quantize)}
    for view in view_ops:
        view.meta = {**view.meta, "val": computed(view)}
    for each in dequantizes:
        each.args = (each.args[0], *_range_of(each).arguments())
    if not found.is_full:
        _clamp(graph, quantize, found)


def _clamp(graph: Graph, quantize: Node, found: _Range) -> None:
    """Clamp the integers of `quantize` for all its readers."""
    readers = list(quantize.users)
    with graph.inserting_after(quantize):
        real = graph.call_function(DEQUANTIZE, (quantize, *found.arguments()))
    with graph.inserting_after(real):
        clamped = graph.call_function(_aten.clamp.default, (real, *found.limits()))
    with graph.inserting_after(clamped):
        codes = graph.call_function(QUANTIZE, (clamped, *found.arguments()))
    for node in (real, clamped, codes):
        node.meta = {**quantize.meta}
        node.meta["val"] = computed(node)
    for reader in readers:
        reader.replace_input_with(quantize, codes)
