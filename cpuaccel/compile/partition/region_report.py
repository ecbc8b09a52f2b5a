"""Makes the report of the regions of a graph, and of its fallbacks."""

from __future__ import annotations

from cpuaccel.compile.common import report
from cpuaccel.compile.partition.regions import Cut


def report_of(cut: Cut) -> report.Report:
    """Return the report of a `cut`."""
    regions = tuple(
        tuple(
            report.Partition(
                tuple(op.kind for op in operations),
                str(region.program.values[operations[-1].outputs[0]].dtype).removeprefix("torch."),
                part.choice.reason,
            )
            for part, operations in zip(region.parts, region.program.partitions, strict=True)
        )
        for region in cut.regions
    )
    left = tuple(
        report.Left(str(node.target).removeprefix("aten."), node.name, reason)
        for node, reason in cut.left
    )
    return report.Report(report.current_compile_id(), regions, left)
