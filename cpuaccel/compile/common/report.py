"""Reports of compiled graphs, for tests and explain(): partitions taken, fallbacks and reasons."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from cpuaccel import _log, _native
from cpuaccel._compat import CompileContext

_MAX_REPORTS = 256


@dataclass(frozen=True)
class Partition:
    """Ops that run together."""

    kinds: tuple[str, ...]
    """The kinds of its ops, in order, named as in oneDNN Graph or in csrc/plan/view_ops.h."""
    dtype: str
    reason: str
    """The reason why it was taken."""


@dataclass(frozen=True)
class NodeFallback:
    """A fallback: a node that oneDNN might have run, but torch or Inductor runs."""

    op: str
    name: str
    reason: str


@dataclass(frozen=True)
class Report:
    """The report of one compiled graph."""

    compile_id: str
    """Dynamo's number of the compilation, as in its logs."""
    regions: tuple[tuple[Partition, ...], ...]
    """The partitions of each region."""
    left: tuple[NodeFallback, ...]

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Report:
        """Return the report whose `dataclasses.asdict` these are, read from JSON."""
        return cls(
            facts["compile_id"],
            tuple(
                tuple(Partition(**{**part, "kinds": tuple(part["kinds"])}) for part in region)
                for region in facts["regions"]
            ),
            tuple(NodeFallback(**each) for each in facts["left"]),
        )

    def kinds(self) -> list[tuple[str, ...]]:
        """Return the kinds of each partition."""
        return [part.kinds for region in self.regions for part in region]


_reports: deque[tuple[Report, tuple[weakref.ref[Tensor], ...]]] = deque(maxlen=_MAX_REPORTS)


def reports() -> list[Report]:
    """Return the reports of the last graphs that were compiled in this process, oldest first."""
    return [report for report, _ in list(_reports)]


def reports_of(module: nn.Module) -> list[Report]:
    """Return those of `reports()` whose weights, if known, all belong to the module."""
    own = {id(each) for each in module.parameters()}
    return [
        report for report, weights in list(_reports) if {id(weight()) for weight in weights} <= own
    ]


def clear() -> None:
    """Remove all reports."""
    _reports.clear()


def register(report: Report, weights: Iterable[Tensor] = ()) -> None:
    """Add a report to `reports()`, of a graph that reads `weights`, and count its fallbacks."""
    _reports.append((report, tuple(weakref.ref(weight) for weight in weights)))
    for left in report.left:
        count_fallback(f"graph.{left.op}", left.reason, left.name)


def count_fallback(op: str, reason: str, name: str = "") -> None:
    """Count and log a fallback of `op`, the node `name`; "graph" stands for the whole graph."""
    _native.load().count_fallback(op, reason)
    _log.logger.info("fallback: %s %s: %s", op, name, reason)


def current_compile_id() -> str:
    """Return Dynamo's number of the current compilation; empty outside of Dynamo."""
    compile_id = CompileContext.current_compile_id()
    return "" if compile_id is None else str(compile_id)
