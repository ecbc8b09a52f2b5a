"""Makes the report of the regions of a graph, and of its fallbacks."""

from __future__ import annotations

from cpuaccel.compile.common import report
from cpuaccel.compile.partition.regions import FoundRegions


def report_of(found: FoundRegions) -> report.Report:
    """Return the report of the regions that were found."""
    regions = tuple(
        tuple(
            report.Partition(
                tuple(op.kind for op in operations),
                str(region.plan_text.values[operations[-1].outputs[0]].dtype).removeprefix(
                    "torch."
                ),
                partition.choice.reason,
            )
            for partition, operations in zip(
                region.partitions, region.plan_text.partitions, strict=True
            )
        )
        for region in found.regions
    )
    left = tuple(
        report.NodeFallback(str(node.target).removeprefix("aten."), node.name, reason)
        for node, reason in found.fallbacks
    )
    return report.Report(report.current_compile_id(), regions, left)
