"""Finds regions of a graph that compute one quint8 tensor from another one, element by element.

The tensor that a node is computed from is its source. For each node, torch's own ops compute its
value for each of the 256 values that the source can have. The values of a region's result are its
table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node
from torch.fx.node import Argument, map_arg

from cpuaccel import _compat
from cpuaccel.quant._fusion.aliases import shared_and_mutated
from cpuaccel.quant._fusion.elementwise import argument, op_name, schemas
from cpuaccel.quant._fusion.layers import has_own_quantizer, keeps_quantizer
from cpuaccel.quant._fusion.model import Model, has_hooks

_SCALES = ("scale", "output_scale", "Y_scale_i")
_ZERO_POINTS = ("zero_point", "output_zero_point", "Y_zero_point_i")


@dataclass
class Region:
    """Nodes that are computed from `source` only."""

    source: Node
    nodes: list[Node] = field(default_factory=list)
    """In the order of the graph."""
    results: list[Node] = field(default_factory=list)
    """The quantized nodes that something outside of the region uses."""
    floats: list[Node] = field(default_factory=list)
    """The float nodes that something outside of the region uses."""


class Values:
    """What is known of the values of a graph's nodes.

    `cuts`: nodes that are sources for later nodes, although they could be part of a region.
    """

    def __init__(self, model: Model, cuts: frozenset[Node] = frozenset()) -> None:
        self._model = model
        self._cuts = cuts
        self._mutated = shared_and_mutated(model)
        self.values: dict[Node, Tensor] = {}
        """By node, its values for the 256 values of its source, in order."""
        self.sources: dict[Node, Node] = {}
        """The sources of nodes that are computed from another one."""
        with torch.no_grad():
            for node in model.graph.nodes:
                if node not in self._mutated:
                    self._add(node)

    def quantizer(self, node: Node) -> tuple[float, int] | None:
        """Return scale and zero point of a node that is known to be per-tensor quint8."""
        value = self.values.get(node)
        if value is None or not value.is_quantized:
            return None
        return value.q_scale(), value.q_zero_point()

    def mutated(self, node: Node) -> bool:
        """Return whether something mutates the tensor while others may read it."""
        return node in self._mutated

    def _add(self, node: Node) -> None:
        sources = {self._source(operand) for operand in self._model.operands(node)}
        source = sources.pop() if len(sources) == 1 else None
        if source is not None and self._model.is_elementwise(node):
            value = self._run(node)
            if value is not None:
                self.values[node] = value
                self.sources[node] = source
                return
        quantizer = self._own_quantizer(node) or self._kept_quantizer(node)
        if quantizer is not None:
            self.values[node] = all_values(*quantizer)

    def _source(self, node: Node) -> Node | None:
        """Return the source of what is computed from `node`."""
        if node not in self.values:
            return None
        return node if node in self._cuts else self.sources.get(node, node)

    def _run(self, node: Node) -> Tensor | None:
        def value_of(operand: Node) -> Argument:
            if operand in self.values:
                value = self.values[operand]
                if operand in self._cuts:
                    value = all_values(value.q_scale(), value.q_zero_point())
                return value.clone()
            return self._model.constant(operand)  # type: ignore[return-value]

        args = map_arg(node.args, value_of)
        kwargs = map_arg(node.kwargs, value_of)
        try:
            result = _call(self._model, node, args, kwargs)
        except Exception:  # the op raises, and will do so when the model runs
            return None
        if not isinstance(result, Tensor) or result.shape != (256,):
            return None
        return result if _is_quint8_or_float(result) else None

    def _own_quantizer(self, node: Node) -> tuple[float, int] | None:
        scale: object = None
        zero_point: object = None
        module = self._model.called(node)
        if has_own_quantizer(module) and not has_hooks(module):
            scale, zero_point = getattr(module, "scale", None), getattr(module, "zero_point", None)
        elif op_name(node.target).startswith("quantized::") and "dynamic" not in str(node.target):
            scale, zero_point = _first(node, _SCALES), _first(node, _ZERO_POINTS)
        elif node.target is torch.quantize_per_tensor and torch.quint8 in node.args:
            scale, zero_point = node.args[1], node.args[2]
        numbers = self._model.number(scale), self._model.number(zero_point)
        return None if None in numbers else (float(numbers[0] or 0), int(numbers[1] or 0))

    def _kept_quantizer(self, node: Node) -> tuple[float, int] | None:
        if not keeps_quantizer(self._model, node):
            return None
        known = {
            self.quantizer(operand) for operand in self._model.operands(node)[: _tensors(node)]
        }
        return known.pop() if len(known) == 1 else None


def _tensors(node: Node) -> int | None:
    """Return how many operands count for the quantizer: all of cat's, else one before sizes."""
    return None if isinstance(node.args[0], (list, tuple)) else 1


def _first(node: Node, names: tuple[str, ...]) -> object:
    expected = {a.name for schema in schemas(node.target) for a in schema.arguments}
    return next((argument(node, name) for name in names if name in expected), None)


def _call(model: Model, node: Node, args: Any, kwargs: Any) -> object:
    target: Any = node.target
    if node.op == "call_module":
        target = model.called(node)
    elif node.op == "call_method":
        target = getattr(torch.Tensor, target)
    result: object = target(*args, **kwargs)
    return result


def _is_quint8_or_float(value: Tensor) -> bool:
    if not value.is_quantized:
        return value.dtype == torch.float32
    return value.dtype == torch.quint8 and value.qscheme() == torch.per_tensor_affine


def all_values(scale: float, zero_point: int) -> Tensor:
    """Return the 256 quint8 values of a quantizer, in order."""
    bytes_ = torch.arange(256, dtype=torch.uint8)
    found: Tensor = _compat.quantized_tensor(bytes_, scale, zero_point)
    return found


def find_regions(model: Model) -> tuple[Values, list[Region]]:
    """Return the regions of a graph, in its order.

    A result from which other results of the same region are computed is the source of a region of
    its own, because it must be computed anyway.
    """
    cuts: frozenset[Node] = frozenset()
    while True:
        values = Values(model, cuts)
        regions = _regions(values, model)
        passed = {result for region in regions for result in _passed(region)} - cuts
        if not passed:
            return values, regions
        cuts |= passed


def _regions(values: Values, model: Model) -> list[Region]:
    regions: dict[Node, Region] = {}
    for node in model.graph.nodes:
        source = values.sources.get(node)
        if source is None:
            continue
        regions.setdefault(source, Region(source)).nodes.append(node)
    for region in regions.values():
        region.nodes = _leading_to_quint8(values, region.nodes)
        inside = set(region.nodes)
        for node in region.nodes:
            if any(user not in inside for user in node.users):
                is_quantized = values.quantizer(node) is not None
                (region.results if is_quantized else region.floats).append(node)
    return list(regions.values())


def _leading_to_quint8(values: Values, nodes: list[Node]) -> list[Node]:
    """Return the nodes without those that are computed in float and lead to no quint8 tensor."""
    kept: set[Node] = set()
    for node in reversed(nodes):
        if values.quantizer(node) is not None or any(user in kept for user in node.users):
            kept.add(node)
    return [node for node in nodes if node in kept]


def _passed(region: Region) -> list[Node]:
    """Return the first result that other results are computed from, if there is one."""
    found: list[Node] = []
    for result in region.results:
        before: set[Node] = set()
        waiting = [result]
        while waiting:
            for operand in waiting.pop().all_input_nodes:
                if operand in region.nodes and operand not in before:
                    before.add(operand)
                    waiting.append(operand)
        found += [other for other in region.results if other in before]
    return found[:1]
