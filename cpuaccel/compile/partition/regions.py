"""Cuts regions out of a graph: partitions that oneDNN and cpuaccel's kernels run in one call."""

from __future__ import annotations

import math
import operator
from collections import defaultdict
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from cpuaccel import _native
from cpuaccel.compile.bridge import (
    CASTS,
    MOVES,
    OWN,
    TRANSLATIONS,
    WRITES,
    claim,
    make_constants,
    say_parts,
)
from cpuaccel.compile.bridge.plan_text import Operation, Output, Program
from cpuaccel.compile.bridge.translation import Refused, Translation, Unit
from cpuaccel.compile.partition import cost
from cpuaccel.compile.partition.partition import Part
from cpuaccel.compile.partition.readers import is_read_outside, outside_sources
from cpuaccel.compile.partition.selection import choose_parts, leave_torn_units
from cpuaccel.compile.passes import linear_from_bmm, linear_layouts, strided_reads


@dataclass
class Region:
    """Partitions that run in one call."""

    parts: list[Part]
    program: Program
    nodes: list[Node]
    inputs: list[Node]
    constants: list[Node]
    outputs: list[tuple[Node, bool]]
    """Nodes that are read outside, and whether each is channels_last."""
    written: list[Node]
    """Results of mutations, one for each of the first `inputs`; the results after `outputs`."""

    @property
    def results(self) -> list[tuple[Node, bool]]:
        """The results of the program: `outputs`, then `written` in their own layout."""
        return [*self.outputs, *((node, False) for node in self.written)]

    def call(self, inputs: list[Any], constants: list[Any], torch_text: str) -> tuple[Any, Any]:
        """Return the op that runs the region on these inputs and constants, and its arguments."""
        count, ops = len(self.written), torch.ops.cpuaccel
        rest = (constants, self.program.text, torch_text)
        if not count:
            return ops.graph_region.default, (inputs, *rest)
        return ops.graph_region_.default, (inputs[:count], inputs[count:], *rest)


@dataclass
class Cut:
    """The regions of a graph, and the fallbacks."""

    regions: list[Region]
    left: list[tuple[Node, str]]
    """Nodes that could have been taken, and the reasons why they were not."""


Race = Callable[[Region], cost.Choice]
"""Says whether to take a region whose partitions the table takes."""


def cut(
    graph: Graph, constants: set[Node], race: Race | None = None, *, in_place: bool = False
) -> Cut:
    """Find the regions of `graph`, in which `constants` are the weights.

    `in_place`: whether regions may mutate what the graph mutates.
    """
    strided_reads.say_by_sizes(graph)
    linear_from_bmm.rejoin(graph)
    linear_layouts.put_in_order(graph)
    if in_place:
        say_parts(graph)
    by_place = list(strided_reads.read_by_place(graph))
    if by_place:
        return Cut(
            [],
            [
                (node, "it reads memory in eager mode's layout, which a region may change")
                for node in by_place
            ],
        )
    translation = Translation(constants, in_place)
    left = _translate(graph, translation)
    if not translation.units:
        return Cut([], left)
    parts = _parts(graph, translation)
    choose_parts(parts, translation)
    while True:
        regions = _regions(graph, parts, translation)
        again = _leave_read_writes(regions, translation) or _try(regions)
        if not again and (race is None or not _race(regions, race)):
            break
    for part in parts:
        if not part.choice.taken and any(kind not in MOVES for kind in part.kinds(translation)):
            left.extend((_op_of(unit), part.choice.reason) for unit in part.units)
    return Cut(regions, left)


def _op_of(unit: Unit) -> Node:
    """Return the node that messages name: not the getitem of an op with several results."""
    return next((node for node in unit.nodes if node.target is not operator.getitem), unit.result)


# Translating


def _translate(graph: Graph, translation: Translation) -> list[tuple[Node, str]]:
    left = claim(graph, translation)
    make_constants(graph, translation)
    for node in graph.nodes:
        if node.target in CASTS and translation.is_constant(node.args[0]):
            translation.make_constant(node, "cast")
    for node in graph.nodes:
        translate = TRANSLATIONS.get(node.target) if node.op == "call_function" else None
        if translate is None or node in translation.unit_of:
            continue
        try:
            translate(translation, node)
            translation.end()
        except Refused as why:
            translation.undo()
            if str(why):
                left.append((node, str(why)))
    translation.forget_unread()
    return left


# Partitions


def _parts(graph: Graph, translation: Translation) -> list[Part]:
    """Get the partitions from oneDNN Graph. Each op of cpuaccel is a partition of its own."""
    unit_of = {number: unit for unit in translation.units for number in unit.operations}
    own: list[int] = []
    asked: list[int] = []
    for number in sorted(unit_of):
        (own if translation.operations[number].kind in OWN else asked).append(number)
    parts = [Part([number], [unit_of[number]], supported=True) for number in own]
    operations = [translation.operations[number] for number in asked]
    operations += _readers(translation)
    program = _program([operations], [], translation)
    for supported, numbers in _native.load().find_partitions(program.text) if asked else []:
        known = [asked[number] for number in numbers if number < len(asked)]
        if not known:
            continue
        for run in _runs(known, translation):
            units = list({id(unit_of[number]): unit_of[number] for number in run}.values())
            parts.append(Part(run, units, supported))
    return _joined(parts)


def _runs(numbers: list[int], translation: Translation) -> Iterable[list[int]]:
    """Yield the ops of a partition that run together.

    If a partition broadcasts a result to a larger one, and no layer makes it, oneDNN 3.2 has only
    its reference kernel. These ops run one by one.
    """
    operations = [translation.operations[number] for number in numbers]
    sizes = [math.prod(translation.values[op.outputs[0]].sizes) for op in operations]
    if operations[0].kind in cost.LAYERS or min(sizes) == max(sizes):
        yield numbers
    else:
        yield from ([number] for number in numbers)


def _joined(parts: list[Part]) -> list[Part]:
    """Mark partitions that share a unit with an unsupported one as unsupported: units run whole."""
    seen: dict[int, list[Part]] = defaultdict(list)
    for part in parts:
        for unit in part.units:
            seen[id(unit)].append(part)
    for sharing in seen.values():
        if len(sharing) > 1 and not all(part.supported for part in sharing):
            for part in sharing:
                part.supported = False
    return parts


def _readers(translation: Translation) -> Iterable[Operation]:
    """Yield dummy ops that read the values used outside of oneDNN, so that it writes them."""
    read = {
        number
        for unit in translation.units
        for operation in (translation.operations[number] for number in unit.operations)
        if operation.kind in OWN
        for number in operation.inputs
    }
    for unit in translation.units:
        if translation.operations[unit.operations[-1]].kind in OWN:
            continue
        if translation.numbers[unit.result] in read or any(
            user not in translation.unit_of for user in unit.result.users
        ):
            number = translation.numbers[unit.result]
            end = len(translation.values)
            translation.values[end] = translation.values[number]
            yield Operation("Wildcard", (number,), (end,))


def _program(
    partitions: list[list[Operation]], outputs: list[Output], translation: Translation
) -> Program:
    """Return the program that runs `partitions`, with the values that it reads from outside."""
    operations = [op for partition in partitions for op in partition]
    preparations = list(_preparations(operations, translation))
    made = {number for op in (*operations, *preparations) for number in op.outputs}
    written = (op.inputs[0] for op in _writes(operations))
    others = (number for op in (*operations, *preparations) for number in op.inputs)
    read = dict.fromkeys((*written, *others))
    inputs: list[int] = []
    constants: list[int] = []
    for number in read:
        if number not in made:
            known = translation.is_constant(translation.node_of[number])
            (constants if known else inputs).append(number)
    return Program(translation.values, inputs, constants, outputs, preparations, partitions)


def _writes(operations: Iterable[Operation]) -> list[Operation]:
    return [op for op in operations if op.kind in WRITES]


def _preparations(operations: Iterable[Operation], translation: Translation) -> Iterable[Operation]:
    """Return the ops that make the constants that are read, in an executable order."""
    done: dict[int, Operation] = {}

    def visit(number: int) -> None:
        preparation = translation.preparations.get(number)
        if preparation is not None and id(preparation) not in done:
            for source in preparation.inputs:
                visit(source)
            done[id(preparation)] = preparation

    for op in operations:
        for number in op.inputs:
            visit(number)
    return done.values()


# Regions


def _regions(graph: Graph, parts: list[Part], translation: Translation) -> list[Region]:
    """Group partitions that are not connected by a path through any other node.

    The level of a partition is the maximum number of times that a path to it leaves the partitions
    that are taken. Partitions of one level are one region.
    """
    taken = [part for part in parts if part.choice.taken]
    groups = _groups(taken)
    group_of = {node: number for number, nodes in enumerate(groups) for node in nodes}
    order = _order(graph, groups, group_of, translation)
    level: dict[Any, int] = {}
    by_level: dict[int, list[int]] = defaultdict(list)
    for item in order:
        is_group = isinstance(item, int)
        levels = [0]
        for source in outside_sources(groups[item] if is_group else [item], group_of, translation):
            key = group_of.get(source, source)
            levels.append(level[key] + (isinstance(key, int) and not is_group))
        level[item] = max(levels)
        if is_group:
            by_level[level[item]].append(item)
    part_of = {number: part for part in taken for number in part.operations}
    regions = []
    for items in by_level.values():
        nodes = [node for item in items for node in groups[item]]
        found = {
            id(part_of[number]): part_of[number]
            for node in nodes
            for number in translation.unit_of[node].operations
        }
        regions.append(_region(graph, list(found.values()), group_of, translation))
    return regions


def _groups(parts: list[Part]) -> list[list[Node]]:
    """Return the nodes of each partition; partitions that share a unit form one group."""
    group: dict[int, list[Node]] = {}
    for part in parts:
        merged: dict[Node, None] = {}
        for unit in part.units:
            merged.update(dict.fromkeys(group.get(id(unit), unit.nodes)))
        nodes = list(merged)
        for unit in part.units:
            group[id(unit)] = nodes
        for other, held in group.items():
            if any(node in merged for node in held):
                group[other] = nodes
    return list({id(nodes): nodes for nodes in group.values()}.values())


def _order(
    graph: Graph,
    groups: list[list[Node]],
    group_of: dict[Node, int],
    translation: Translation,
) -> list[Any]:
    """Return nodes, and numbers of groups, in topological order."""
    waits: dict[Any, set[Any]] = {}
    for node in graph.nodes:
        key = group_of.get(node, node)
        nodes = groups[key] if isinstance(key, int) else [node]
        sources = outside_sources(nodes, group_of, translation)
        waits[key] = {group_of.get(source, source) for source in sources} - {key}
    followers = defaultdict(list)
    for key, sources in waits.items():
        for source in sources:
            followers[source].append(key)
    ready = [key for key, sources in waits.items() if not sources]
    order = []
    missing = {key: len(sources) for key, sources in waits.items()}
    while ready:
        key = ready.pop()
        order.append(key)
        for follower in followers[key]:
            missing[follower] -= 1
            if not missing[follower]:
                ready.append(follower)
    assert len(order) == len(waits), "partitions that read each other's results"
    return order


def _region(
    graph: Graph, parts: list[Part], taken: Container[Node], translation: Translation
) -> Region:
    position = {node: number for number, node in enumerate(graph.nodes)}
    parts = _runnable(parts, translation)
    units = list({id(unit): unit for part in parts for unit in part.units}.values())
    nodes = sorted({node for unit in units for node in unit.nodes}, key=position.__getitem__)
    inside = set(nodes)
    results = [unit.result for unit in units]
    returned = [
        (node, _channels_last(node))
        for node in sorted(results, key=position.__getitem__)
        if is_read_outside(node, inside, taken, translation)
    ]
    partitions = [[translation.operations[number] for number in part.operations] for part in parts]
    written = _writes(op for partition in partitions for op in partition)
    program = _program(
        partitions,
        [Output(translation.numbers[node], last) for node, last in returned]
        + [Output(op.outputs[0], channels_last=False) for op in written],
        translation,
    )
    return Region(
        parts,
        program,
        nodes,
        [translation.node_of[number] for number in program.inputs],
        [translation.node_of[number] for number in program.constants],
        returned,
        [translation.node_of[op.outputs[0]] for op in written],
    )


def _runnable(parts: list[Part], translation: Translation) -> list[Part]:
    """Return `parts` in topological order."""
    maker = {
        value: part
        for part in parts
        for number in part.operations
        for value in translation.operations[number].outputs
    }
    done: dict[int, Part] = {}

    def visit(part: Part) -> None:
        stack = [(part, False)]
        while stack:
            current, ready = stack.pop()
            if id(current) in done:
                continue
            if ready:
                done[id(current)] = current
                continue
            stack.append((current, True))
            for number in current.operations:
                for value in translation.operations[number].inputs:
                    source = maker.get(value)
                    if source is not None and source is not current and id(source) not in done:
                        stack.append((source, False))

    for part in sorted(parts, key=lambda each: min(each.operations)):
        visit(part)
    return list(done.values())


def _channels_last(node: Node) -> bool:
    """Say whether a result is channels_last: as in eager if the graph returns it, else if an image.

    Tensors that are not images in eager, such as the heads of attention, have a view's strides.
    """
    value = node.meta["val"]
    if value.dim() not in (4, 5):
        return False
    sizes, strides = value.shape, value.stride()
    channels_last = statically_known_true(strides[1] == 1)
    if any(user.op == "output" for user in node.users):
        return channels_last and not statically_known_true(strides[-1] == 1)
    contiguous = statically_known_true(strides[-1] == 1) and all(
        statically_known_true(strides[dim] == strides[dim + 1] * sizes[dim + 1])
        for dim in range(1, value.dim() - 1)
    )
    return channels_last or contiguous


# Trying, and timing


def _leave_read_writes(regions: list[Region], translation: Translation) -> bool:
    """Leave mutations whose tensor is read after its region; say whether there were any."""
    found = False
    for region in regions:
        read = {node for node, _ in region.outputs}
        for part in region.parts:
            written = _writes(translation.operations[number] for number in part.operations)
            if any(translation.node_of[op.outputs[0]] in read for op in written):
                part.choice = cost.Choice(False, "a fallback reads the tensor that it mutates")
                found = True
    if found:
        leave_torn_units([part for region in regions for part in region.parts])
    return found


def _try(regions: list[Region]) -> bool:
    """Leave partitions that do not compile; say whether there were any."""
    failed = False
    for region in regions:
        reasons = _native.load().why_not_compiled(region.program.text)
        for part, reason in zip(region.parts, reasons, strict=True):
            if reason:
                part.choice = cost.Choice(False, f"oneDNN: {reason}")
                failed = True
    if failed:
        leave_torn_units([part for region in regions for part in region.parts])
    return failed


def _race(regions: list[Region], race: Race) -> bool:
    """Leave regions that are slower; say whether there were any."""
    lost = False
    for region in regions:
        decided = race(region)
        lost = lost or not decided.taken
        for part in region.parts:
            reason = decided.reason
            if decided.taken:
                reason = f"{part.choice.reason.partition('; ')[0]}; {reason}"
            part.choice = cost.Choice(decided.taken, reason)
    return lost
