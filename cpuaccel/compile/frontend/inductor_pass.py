"""The Inductor pass over inference graphs, after autograd: puts oneDNN's regions into them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch.fx import Graph, Node

from cpuaccel import _engine_state, _log, _native
from cpuaccel import config as settings
from cpuaccel._compat import TracingContext, inductor_config, inductor_graph_pass
from cpuaccel._inductor import keys
from cpuaccel.compile.bridge import torch_fallback
from cpuaccel.compile.common import report
from cpuaccel.compile.partition import cheap_ops, cost, insertion, region_report, regions
from cpuaccel.compile.passes import packed_linears
from cpuaccel.compile.validate.region_timing import RegionTimer

_COMPILE = Path(__file__).parents[1]
"""cpuaccel/compile. All of it decides what the pass does, so that all of it is in the key."""

_NAME = "post_grad_custom_pre_pass"

_Aware: Any = getattr(inductor_graph_pass, "CustomInferenceAwareGraphPass", None)
"""The base of passes that are told whether a graph is for inference; torch 2.10 has none."""
_Base: Any = _Aware or inductor_graph_pass.CustomGraphPass


def add_to(patches: dict[str, Any], timed: bool) -> GraphPass:
    """Add cpuaccel's pass to Inductor's configuration patches, after the user's own pass."""
    before = patches.get(_NAME, getattr(inductor_config, _NAME))
    added = patches[_NAME] = GraphPass(before, dict(patches), timed)
    return added


class GraphPass(_Base):  # type: ignore[misc]
    """Runs the user's own pass, and then cpuaccel's.

    `patches` are Inductor's configuration without this pass. If `timed`, regions are timed against
    Inductor's code for the same nodes.
    """

    def __init__(self, before: Any, patches: dict[str, Any], timed: bool) -> None:
        self._before = before
        self.ran = False
        self.report: report.Report | None = None
        """The report of the graph that it was given."""
        self._timed = timed
        self._timer = RegionTimer({**patches, _NAME: before}) if timed else None

    # The default holds because the backend adds the pass only to graphs without gradients.
    def __call__(self, graph: Graph, is_inference: bool = True) -> None:
        self.ran = True
        _call(self._before, graph, is_inference)
        if is_inference:
            try:
                self.report = rewrite(graph, self._timer)
            except Exception as error:
                report.count_fallback("graph", f"{type(error).__name__}: {error}")
                _log.logger.warning(
                    "cpuaccel's pass failed, Inductor compiles the graph without it: %s",
                    error,
                    exc_info=True,
                )
        insertion.decompose_preserved(graph)

    def uuid(self) -> Any:
        """Return the key of this pass in Inductor's caches."""
        before = None if self._before is None else self._before.uuid()
        native = _native.load()
        untimed = settings.get("deterministic")
        enabled = _engine_state.is_enabled()
        key = keys.sources(_COMPILE), enabled, self._timed, untimed, cost.overruled()
        return before, *key, native.isa(), native.cpu_vendor()


def rewrite(graph: Graph, timer: regions.RegionTimer | None = None) -> report.Report | None:
    """Put regions, or cpuaccel's linear layers, into an inference graph, and return the report."""
    if not _engine_state.is_enabled():
        report.count_fallback("graph", "cpuaccel is off")
        return None
    if not hasattr(_native.load(), "find_partitions"):
        return packed_linears.rewrite(graph, _weights(graph))
    found = regions.find_regions(graph, _weights(graph), timer, in_place=True)
    described = region_report.report_of(found)  # before the nodes that it names are erased
    insertion.put_regions(graph, found.regions)
    cheap_ops.mark_for_torch(graph, found.regions)
    return described


def _weights(graph: Graph) -> set[Node]:
    """Return the placeholders of parameters and buffers that the graph does not mutate."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    static = set(metadata.static_input_indices) if metadata is not None else set()
    placeholders = graph.find_nodes(op="placeholder")
    return {
        node
        for index, node in enumerate(placeholders)
        if index in static and not any(user.target is torch_fallback.COPY for user in node.users)
    }


def _call(before: Any, graph: Graph, is_inference: bool) -> None:
    if before is None:
        return
    for each in before if isinstance(before, (list, tuple)) else [before]:
        if _Aware is not None and isinstance(each, _Aware):
            each(graph, is_inference)
        else:
            each(graph)
