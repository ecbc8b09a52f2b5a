"""Makes the nodes and edges of a drawing of a graph: its ops, and the steps of its regions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cpuaccel._cli.plan.region import Region, StepOrPartition, tensor_text
from cpuaccel._cli.plan.timing import Measured
from cpuaccel._explain.plan_steps import Plan
from cpuaccel.compile.bridge.op_json import GETITEM
from cpuaccel.compile.bridge.plan_text import plan_name
from cpuaccel.compile.common.torch_names import dtype_of
from cpuaccel.compile.package.outline import INPUT


@dataclass(frozen=True)
class Node:
    """One box of the drawing."""

    name: str
    title: str
    lines: tuple[str, ...] = ()
    """Text below the title."""
    share: float | None = None
    """Share of the call's time, if it was measured."""
    is_end: bool = False
    """Whether it is an argument of the call or a result."""


@dataclass(frozen=True)
class Edge:
    """A tensor, from the node that computes it to one that reads it."""

    source: str
    target: str
    tensor: str
    """Dtype and sizes."""


@dataclass(frozen=True)
class Cluster:
    """A region: the ops that one cpuaccel call runs."""

    title: tuple[str, ...]
    """Lines of the title."""
    nodes: tuple[Node, ...]


@dataclass
class Drawing:
    """Nodes in the order in which they run; those of a region are together."""

    nodes: list[Node | Cluster] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)

    def boxes(self) -> Iterator[Node]:
        """Yield all nodes."""
        for each in self.nodes:
            yield from each.nodes if isinstance(each, Cluster) else (each,)


def drawing_of(outline: Mapping[str, Any], measured: Measured | None = None) -> Drawing:
    """Return the drawing of an outline (see `package/outline.py`), with times if `measured`.

    A region's nodes are its measured steps, or the partitions of its text if it was not measured.
    """
    return _Drawer(outline, measured).drawing


Read = tuple[int, int]
"""The number of a node of the outline, and the number of one of its results."""


class _Drawer:
    def __init__(self, outline: Mapping[str, Any], measured: Measured | None) -> None:
        self.drawing = Drawing()
        self._measured = measured
        self._plans = {plan.name: plan for plan in measured.plans} if measured else {}
        self._nodes = outline["nodes"]
        self._makers: dict[Read, list[str]] = {}
        """Names of the boxes that write each value."""
        self._steps = 0
        arguments = sum(node["op"] == INPUT for node in self._nodes)
        for number, node in enumerate(self._nodes):
            if "program" in node:
                self._add_region(number, node)
            elif node["op"] != GETITEM:
                self._add_op(number, node, number - arguments)
        for number, read in enumerate(outline["returns"]):
            self.drawing.nodes.append(Node(f"result{number}", f"result {number}", is_end=True))
            self._add_edges([read], f"result{number}")

    def _add_op(self, number: int, node: Mapping[str, Any], place: int) -> None:
        name = f"node{number}"
        for result in range(len(node["results"])):
            self._makers[number, result] = [name]
        if node["op"] == INPUT:
            self.drawing.nodes.append(Node(name, f"input {node['name']}", is_end=True))
            return
        lines, share = [node["name"]] if node["name"] != node["op"] else [], None
        if self._measured is not None and self._measured.ops:
            share = self._share(self._measured.ops[place])
            lines.append(self._taken(self._measured.ops[place]))
        self.drawing.nodes.append(Node(name, node["op"], tuple(lines), share))
        self._add_edges(node["reads"], name)

    def _add_edges(self, reads: Iterable[Any], target: str) -> None:
        for read in dict.fromkeys(tuple(each) for each in reads if each is not None):
            for maker in self._makers.get(read, ()):
                self._add_edge(maker, target, self._tensor(read))

    def _add_edge(self, source: str, target: str, tensor: str) -> None:
        edge = Edge(source, target, tensor)
        if source != target and edge not in self.drawing.edges:
            self.drawing.edges.append(edge)

    def _tensor(self, read: Read) -> str:
        kind = self._nodes[read[0]]["results"][read[1]]
        return "" if kind is None else tensor_text(dtype_of(kind[0]), kind[1])

    def _add_region(self, number: int, node: Mapping[str, Any]) -> None:
        plan = self._plans.get(plan_name(node["program"]))
        region = Region(node["program"], plan)
        names = [f"node{number}step{place}" for place in range(len(region.steps))]
        boxes = tuple(self._box(*each) for each in zip(names, region.steps, strict=True))
        self.drawing.nodes.append(Cluster(self._title(region.name, plan), boxes))
        values = (*region.program.inputs, *region.program.constants)
        brought = dict(zip(values, node["reads"], strict=True))

        def makers(value: int) -> Iterator[str]:
            steps, given = region.sources(value)
            yield from (names[place] for place in sorted(steps))
            for each in sorted(given):
                if brought[each] is not None:
                    yield from self._makers.get(tuple(brought[each]), ())

        for name, step in zip(names, region.steps, strict=True):
            for value in step.reads:
                for maker in makers(value):
                    self._add_edge(maker, name, region.tensor(value))
        for result, output in enumerate(region.program.outputs):
            self._makers[number, result] = list(makers(output.value))

    def _box(self, name: str, step: StepOrPartition) -> Node:
        self._steps += 1
        lines, share = [*filter(None, (step.kernel, step.sizes))], None
        if step.microseconds is not None:
            share = self._share(step.microseconds)
            lines.append(f"{self._taken(step.microseconds)}, {step.of_bound:.0%} of bound")
        return Node(name, f"{self._steps}. {step.kinds}", tuple(lines), share)

    def _title(self, name: str, plan: Plan | None) -> tuple[str, ...]:
        if plan is None:
            return (f"region {name}", *["not run as a plan"] * (self._measured is not None))
        times = f"{self._taken(plan.microseconds)}", f"{plan.between:.1f} us between steps"
        return (f"plan {name}", *times)

    def _share(self, microseconds: float) -> float:
        assert self._measured is not None
        return microseconds / self._measured.microseconds

    def _taken(self, microseconds: float) -> str:
        return f"{microseconds:.1f} us, {self._share(microseconds):.1%} of time"
