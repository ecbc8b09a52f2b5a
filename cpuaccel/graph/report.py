"""What became of the graphs that were compiled: for tests, for explain() and for people."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from torch._guards import CompileContext

from cpuaccel import _log, _native
from cpuaccel.graph.regions import Cut

_KEPT = 256


@dataclass(frozen=True)
class Partition:
    """Ops that oneDNN runs together."""

    kinds: tuple[str, ...]
    """Of the ops, in order; in the words of oneDNN Graph, or of csrc/graph/moves.h."""
    dtype: str
    reason: str
    """Why it was taken."""


@dataclass(frozen=True)
class Left:
    """A node that oneDNN might have run and does not."""

    op: str
    name: str
    reason: str


@dataclass(frozen=True)
class Report:
    """A compiled graph."""

    compile_id: str
    """Dynamo's, as its logs have it."""
    regions: tuple[tuple[Partition, ...], ...]
    """What one call each runs."""
    left: tuple[Left, ...]

    def kinds(self) -> list[tuple[str, ...]]:
        """Return the kinds of each partition."""
        return [part.kinds for region in self.regions for part in region]


_reports: deque[Report] = deque(maxlen=_KEPT)


def reports() -> list[Report]:
    """Return what became of the last graphs that were compiled in this process, oldest first."""
    return list(_reports)


def clear() -> None:
    """Forget them."""
    _reports.clear()


def keep(report: Report) -> None:
    """Add it to `reports()`, and say what was left."""
    _reports.append(report)
    for left in report.left:
        say_left(f"graph.{left.op}", left.reason, left.name)


def say_left(op: str, reason: str, name: str = "") -> None:
    """Count and log that oneDNN does not run `op`, the node `name`; of "graph" the whole of it."""
    _native.load().count_fallback(op, reason)
    _log.logger.info("left: %s %s: %s", op, name, reason)


def describe(cut: Cut) -> Report:
    """Return what `cut` says."""
    compile_id = CompileContext.current_compile_id()
    regions = tuple(
        tuple(
            Partition(
                tuple(op.kind for op in operations),
                str(region.program.values[operations[-1].outputs[0]].dtype).removeprefix("torch."),
                part.choice.reason,
            )
            for part, operations in zip(region.parts, region.program.partitions, strict=True)
        )
        for region in cut.regions
    )
    left = tuple(
        Left(str(node.target).removeprefix("aten."), node.name, reason) for node, reason in cut.left
    )
    return Report("" if compile_id is None else str(compile_id), regions, left)
