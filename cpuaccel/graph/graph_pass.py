"""The pass over inference graphs, after autograd: oneDNN takes its part, Inductor gets the rest."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch._guards import TracingContext
from torch._inductor.custom_graph_pass import CustomInferenceAwareGraphPass
from torch.fx import Graph, Node

import cpuaccel
from cpuaccel import _log, _native
from cpuaccel.graph import regions, report, rewriting
from cpuaccel.quant import engine

_aten: Any = torch.ops.aten


class GraphPass(CustomInferenceAwareGraphPass):
    """Does what the user's own pass does, and then ours."""

    def __init__(self, before: Any) -> None:
        self._before = before

    def __call__(  # type: ignore[override]
        self, graph: Graph, is_inference: bool
    ) -> None:
        _call(self._before, graph, is_inference)
        if is_inference:
            try:
                rewrite(graph)
            except Exception as error:
                _left("graph", f"{type(error).__name__}: {error}")
                _log.logger.warning("a graph is left to Inductor: %s", error, exc_info=True)
        rewriting.take_apart(graph)

    def uuid(self) -> Any:
        """Return what tells graphs compiled with this pass from others in Inductor's caches."""
        before = None if self._before is None else self._before.uuid()
        native = _native.load()
        return before, _sources(), engine.is_enabled(), native.isa(), native.cpu_vendor()


def rewrite(graph: Graph) -> None:
    """Give oneDNN what it is to run of an inference graph."""
    if not engine.is_enabled():
        _left("graph", "cpuaccel is off")
        return
    if not hasattr(_native.load(), "find_partitions"):
        _left("graph", "built without oneDNN")
        return
    found = regions.cut(graph, _weights(graph))
    described = report.describe(found)  # names nodes, which will be gone
    rewriting.put_regions(graph, found.regions)
    report.keep(described)
    for left in described.left:
        _left(f"graph.{left.op}", left.reason, left.name)


def _left(op: str, reason: str, name: str = "") -> None:
    _native.load().count_fallback(op, reason)
    _log.logger.info("left to Inductor: %s %s: %s", op, name, reason)


def _weights(graph: Graph) -> set[Node]:
    """Return the placeholders of parameters and buffers that the graph does not write to."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    static = set(metadata.static_input_indices) if metadata is not None else set()
    placeholders = graph.find_nodes(op="placeholder")
    return {
        node
        for index, node in enumerate(placeholders)
        if index in static and not any(user.target is _aten.copy_.default for user in node.users)
    }


def _call(before: Any, graph: Graph, is_inference: bool) -> None:
    if before is None:
        return
    for each in before if isinstance(before, (list, tuple)) else [before]:
        if isinstance(each, CustomInferenceAwareGraphPass):
            each(graph, is_inference)
        else:
            each(graph)


@cache
def _sources() -> str:
    digest = hashlib.sha256(cpuaccel.__version__.encode())
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
