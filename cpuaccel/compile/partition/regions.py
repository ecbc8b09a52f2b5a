"""Finds the regions of a graph: partitions that oneDNN and cpuaccel's kernels run in one call."""

from __future__ import annotations

import math
import operator
from collections import defaultdict
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, Node

from cpuaccel import _native
from cpuaccel.compile.bridge import (
    CASTS,
    CPUACCEL_OPS,
    MUTATIONS,
    PATTERNS,
    TRANSLATIONS,
    VIEW_OPS,
    dequantize_weights_once,
    skip_slice_copies,
    translate_quantized,
)
from cpuaccel.compile.bridge.plan_text import Operation, Output, PlanText
from cpuaccel.compile.bridge.translation import Fallback, Translation, Unit
from cpuaccel.compile.partition import cost
from cpuaccel.compile.partition.output_layouts import is_channels_last
from cpuaccel.compile.partition.partition import Partition
from cpuaccel.compile.partition.readers import is_read_outside, outside_sources
from cpuaccel.compile.partition.selection import choose_partitions, drop_incomplete_units
from cpuaccel.compile.passes import gelu_from_ops, linear_from_bmm, linear_layouts, strided_reads


@dataclass
class Region:
    """Partitions that run in one call."""

    partitions: list[Partition]
    plan_text: PlanText
    nodes: list[Node]
    inputs: list[Node]
    constants: list[Node]
    outputs: list[tuple[Node, bool]]
    """Nodes that are read outside, and whether each is channels_last."""
    written: list[Node]
    """Results of mutations, one for each of the first `inputs`; the results after `outputs`."""

    @property
    def results(self) -> list[tuple[Node, bool]]:
        """The results of the region: `outputs`, then `written` in their own layout."""
        return [*self.outputs, *((node, False) for node in self.written)]

    def call(self, inputs: list[Any], constants: list[Any], torch_text: str) -> tuple[Any, Any]:
        """Return the op that runs the region on these inputs and constants, and its arguments."""
        count, ops = len(self.written), torch.ops.cpuaccel
        rest = (constants, self.plan_text.text, torch_text)
        if not count:
            return ops.graph_region.default, (inputs, *rest)
        return ops.graph_region_.default, (inputs[:count], inputs[count:], *rest)


@dataclass
class FoundRegions:
    """The regions of a graph, and the fallbacks."""

    regions: list[Region]
    fallbacks: list[tuple[Node, str]]
    """Nodes that could have been taken, and the reasons why they were not."""


RegionTimer = Callable[[Region], cost.Choice]
"""Says whether to take a region whose partitions the table takes."""


def find_regions(
    graph: Graph, constants: set[Node], timer: RegionTimer | None = None, *, in_place: bool = False
) -> FoundRegions:
    """Find the regions of `graph`, in which `constants` are the weights.

    `in_place`: whether regions may mutate what the graph mutates.
    """
    strided_reads.remove_strided_reads(graph)
    linear_from_bmm.restore_linears(graph)
    gelu_from_ops.restore_gelus(graph)
    linear_layouts.reorder_rows(graph)
    if in_place:
        skip_slice_copies(graph)
    by_place = list(strided_reads.strided_reads_of_results(graph))
    if by_place:
        return FoundRegions(
            [],
            [
                (node, "it reads memory in eager mode's layout, which a region may change")
                for node in by_place
            ],
        )
    translation = Translation(constants, in_place)
    fallbacks = _translate(graph, translation)
    if not translation.units:
        return FoundRegions([], fallbacks)
    partitions = _find_partitions(graph, translation)
    choose_partitions(partitions, translation)
    while True:
        regions = _regions(graph, partitions, translation)
        again = _drop_read_mutations(regions, translation) or _drop_uncompilable(regions)
        if not again and (timer is None or not _drop_slower(regions, timer)):
            break
    for partition in partitions:
        if not partition.choice.taken and any(
            kind not in VIEW_OPS for kind in partition.kinds(translation)
        ):
            fallbacks.extend((_op_of(unit), partition.choice.reason) for unit in partition.units)
    return FoundRegions(regions, fallbacks)


def _op_of(unit: Unit) -> Node:
    """Return the node that messages name: not the getitem of an op with several results."""
    return next((node for node in unit.nodes if node.target is not operator.getitem), unit.result)


# Translating


def _translate(graph: Graph, translation: Translation) -> list[tuple[Node, str]]:
    fallbacks = translate_quantized(graph, translation)
    dequantize_weights_once(graph, translation)
    for node in graph.nodes:
        if node.target in CASTS and translation.is_constant(node.args[0]):
            translation.make_constant(node, "cast")
    _translate_patterns(graph, translation)
    for node in graph.nodes:
        translate = TRANSLATIONS.get(node.target) if node.op == "call_function" else None
        if translate is None or node in translation.unit_of:
            continue
        try:
            translate(translation, node)
            translation.end()
        except Fallback as why:
            translation.undo()
            if str(why):
                fallbacks.append((node, str(why)))
    translation.remove_unread_units()
    return fallbacks


def _translate_patterns(graph: Graph, translation: Translation) -> None:
    for node in graph.nodes:
        for match in PATTERNS.get(node.target, ()) if node.op == "call_function" else ():
            if node in translation.unit_of:
                break
            try:
                if match(translation, node):
                    translation.end()
            except Fallback:  # the ops are translated one by one
                translation.undo()


# Partitions


def _find_partitions(graph: Graph, translation: Translation) -> list[Partition]:
    """Get the partitions from oneDNN Graph. Each op of cpuaccel is a partition of its own."""
    unit_of = {number: unit for unit in translation.units for number in unit.operations}
    cpuaccel_ops: list[int] = []
    onednn_ops: list[int] = []
    for number in sorted(unit_of):
        kind = translation.operations[number].kind
        (cpuaccel_ops if kind in CPUACCEL_OPS else onednn_ops).append(number)
    partitions = [Partition([number], [unit_of[number]], supported=True) for number in cpuaccel_ops]
    operations = [translation.operations[number] for number in onednn_ops]
    operations += _readers(translation)
    plan = _plan_text([operations], [], translation)
    for supported, numbers in _native.load().find_partitions(plan.text) if onednn_ops else []:
        known = [onednn_ops[number] for number in numbers if number < len(onednn_ops)]
        if not known:
            continue
        for run in _runs(known, translation):
            units = list({id(unit_of[number]): unit_of[number] for number in run}.values())
            partitions.append(Partition(run, units, supported))
    return _mark_unsupported(partitions)


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


def _mark_unsupported(partitions: list[Partition]) -> list[Partition]:
    """Mark partitions that share a unit with an unsupported one as unsupported: units run whole."""
    seen: dict[int, list[Partition]] = defaultdict(list)
    for partition in partitions:
        for unit in partition.units:
            seen[id(unit)].append(partition)
    for sharing in seen.values():
        if len(sharing) > 1 and not all(partition.supported for partition in sharing):
            for partition in sharing:
                partition.supported = False
    return partitions


def _readers(translation: Translation) -> Iterable[Operation]:
    """Yield dummy ops that read the values used outside of oneDNN, so that it writes them."""
    read = {
        number
        for unit in translation.units
        for operation in (translation.operations[number] for number in unit.operations)
        if operation.kind in CPUACCEL_OPS
        for number in operation.inputs
    }
    for unit in translation.units:
        if translation.operations[unit.operations[-1]].kind in CPUACCEL_OPS:
            continue
        if translation.numbers[unit.result] in read or any(
            user not in translation.unit_of for user in unit.result.users
        ):
            number = translation.numbers[unit.result]
            end = len(translation.values)
            translation.values[end] = translation.values[number]
            yield Operation("Wildcard", (number,), (end,))


def _plan_text(
    op_lists: list[list[Operation]], outputs: list[Output], translation: Translation
) -> PlanText:
    """Return the text that runs these partitions, with the values that it reads from outside."""
    operations = [op for ops in op_lists for op in ops]
    preparations = list(_preparations(operations, translation))
    made = {number for op in (*operations, *preparations) for number in op.outputs}
    written = (op.inputs[0] for op in _mutations(operations))
    others = (number for op in (*operations, *preparations) for number in op.inputs)
    read = dict.fromkeys((*written, *others))
    inputs: list[int] = []
    constants: list[int] = []
    for number in read:
        if number not in made:
            known = translation.is_constant(translation.node_of[number])
            (constants if known else inputs).append(number)
    return PlanText(translation.values, inputs, constants, outputs, preparations, op_lists)


def _mutations(operations: Iterable[Operation]) -> list[Operation]:
    return [op for op in operations if op.kind in MUTATIONS]


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


def _regions(graph: Graph, partitions: list[Partition], translation: Translation) -> list[Region]:
    """Group partitions that are not connected by a path through any other node.

    The level of a partition is the maximum number of times that a path to it leaves the partitions
    that are taken. Partitions of one level are one region.
    """
    taken = [partition for partition in partitions if partition.choice.taken]
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
    part_of = {number: partition for partition in taken for number in partition.operations}
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


def _groups(partitions: list[Partition]) -> list[list[Node]]:
    """Return the nodes of each partition; partitions that share a unit form one group."""
    group: dict[int, list[Node]] = {}
    for partition in partitions:
        merged: dict[Node, None] = {}
        for unit in partition.units:
            merged.update(dict.fromkeys(group.get(id(unit), unit.nodes)))
        nodes = list(merged)
        for unit in partition.units:
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
    graph: Graph, partitions: list[Partition], taken: Container[Node], translation: Translation
) -> Region:
    position = {node: number for number, node in enumerate(graph.nodes)}
    partitions = _runnable(partitions, translation)
    units = list({id(unit): unit for partition in partitions for unit in partition.units}.values())
    nodes = sorted({node for unit in units for node in unit.nodes}, key=position.__getitem__)
    inside = set(nodes)
    results = [unit.result for unit in units]
    returned = [
        (node, is_channels_last(node, translation))
        for node in sorted(results, key=position.__getitem__)
        if is_read_outside(node, inside, taken, translation)
    ]
    op_lists = [
        [translation.operations[number] for number in partition.operations]
        for partition in partitions
    ]
    written = _mutations(op for ops in op_lists for op in ops)
    text = _plan_text(
        op_lists,
        [Output(translation.numbers[node], last) for node, last in returned]
        + [Output(op.outputs[0], channels_last=False) for op in written],
        translation,
    )
    return Region(
        partitions,
        text.renumbered(),
        nodes,
        [translation.node_of[number] for number in text.inputs],
        [translation.node_of[number] for number in text.constants],
        returned,
        [translation.node_of[op.outputs[0]] for op in written],
    )


def _runnable(partitions: list[Partition], translation: Translation) -> list[Partition]:
    """Return `partitions` in topological order."""
    maker = {
        value: partition
        for partition in partitions
        for number in partition.operations
        for value in translation.operations[number].outputs
    }
    done: dict[int, Partition] = {}

    def visit(partition: Partition) -> None:
        stack = [(partition, False)]
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

    for partition in sorted(partitions, key=lambda each: min(each.operations)):
        visit(partition)
    return list(done.values())


# Trying, and timing


def _drop_read_mutations(regions: list[Region], translation: Translation) -> bool:
    """Drop mutations whose tensor is read after its region; say whether there were any."""
    found = False
    for region in regions:
        read = {node for node, _ in region.outputs}
        for partition in region.partitions:
            written = _mutations(translation.operations[number] for number in partition.operations)
            if any(translation.node_of[op.outputs[0]] in read for op in written):
                partition.choice = cost.Choice(False, "a fallback reads the tensor that it mutates")
                found = True
    if found:
        drop_incomplete_units([partition for region in regions for partition in region.partitions])
    return found


def _drop_uncompilable(regions: list[Region]) -> bool:
    """Drop partitions that do not compile; say whether there were any."""
    failed = False
    reasons_of: dict[str, list[str]] = {}  # layers that repeat have the same texts
    for region in regions:
        text = region.plan_text.text
        if text not in reasons_of:
            reasons_of[text] = _native.load().uncompilable_reasons(text)
        reasons = reasons_of[text]
        for partition, reason in zip(region.partitions, reasons, strict=True):
            if reason:
                partition.choice = cost.Choice(False, f"oneDNN: {reason}")
                failed = True
    if failed:
        drop_incomplete_units([partition for region in regions for partition in region.partitions])
    return failed


def _drop_slower(regions: list[Region], timer: RegionTimer) -> bool:
    """Drop regions that are slower; say whether there were any."""
    lost = False
    for region in regions:
        decided = timer(region)
        lost = lost or not decided.taken
        for partition in region.partitions:
            reason = decided.reason
            if decided.taken:
                reason = f"{partition.choice.reason.partition('; ')[0]}; {reason}"
            partition.choice = cost.Choice(decided.taken, reason)
    return lost
