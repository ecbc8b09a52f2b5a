"""Runs the few cheap ops beside regions on torch's kernels, so that no C++ compiler is needed.

Inductor would compile a kernel for them. For the embeddings before an encoder and the norm after
it, that took longer than everything else. Beside many layers, torch's kernels cost a few
microseconds more per call.
"""

from __future__ import annotations

import math
import operator

import torch
from torch.fx import Graph, Node

from cpuaccel.compile.partition import cost
from cpuaccel.compile.partition.regions import Region

_aten = torch.ops.aten
_VIEWS = frozenset(
    {
        _aten.select.int,
        _aten.slice.Tensor,
        _aten.unsqueeze.default,
        _aten.expand.default,
        _aten.reshape.default,
        _aten.view.default,
        _aten.permute.default,
        _aten.t.default,
    }
)
_CHEAP = frozenset(
    {
        _aten.embedding.default,
        _aten.add.Tensor,
        _aten.mul.Tensor,
        _aten.native_layer_norm.default,
        _aten.tanh.default,
        torch.ops.prims.iota.default,
    }
)
_MOST_OPS = 8
_MOST_ELEMENTS = 1 << 18  # of all results together, so that they stay in the L2 cache
_LEAST_LAYERS = 12  # with fewer, a call may be so short that a few microseconds count


TO_TORCH = "should_fallback"
"""The key in a node's meta that makes Inductor call torch's kernel."""


def mark_for_torch(graph: Graph, regions: list[Region]) -> None:
    """Mark nodes of `graph` beside its `regions` for torch's kernels, if they are few and small."""
    operations = (op for each in regions for part in each.plan_text.partitions for op in part)
    if sum(op.kind in cost.LAYERS for op in operations) < _LEAST_LAYERS:
        return
    cheap: list[Node] = []
    for node in graph.nodes:
        if node.op != "call_function" or node.target in _VIEWS or _is_of_a_region(node):
            continue
        if node.target not in _CHEAP:
            return
        cheap.append(node)
    if len(cheap) <= _MOST_OPS and sum(map(_elements, cheap)) <= _MOST_ELEMENTS:
        for node in cheap:
            _mark(node)


def _mark(node: Node) -> None:
    # Imported here because `optimize` imports this package and never runs Inductor.
    from cpuaccel._compat import inductor_lowering

    node.meta[TO_TORCH] = True
    if node.target not in inductor_lowering.lowerings:
        # Inductor does this too, but raises if the environment variable CI is set.
        inductor_lowering.make_fallback(node.target, warn=False, override_decomp=True)


def _is_of_a_region(node: Node) -> bool:
    region = torch.ops.cpuaccel.graph_region.default
    return node.target in (region, operator.getitem)


def _elements(node: Node) -> int:
    """Return the number of elements of a result; more than the maximum if sizes are symbols."""
    value = node.meta["val"]
    sizes = (value[0] if isinstance(value, (list, tuple)) else value).shape
    if not all(isinstance(size, int) for size in sizes):
        return _MOST_ELEMENTS + 1
    return math.prod(sizes)
