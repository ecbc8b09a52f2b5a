"""Applies the table of measured speedups to the partitions of a graph, layers first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable
from itertools import chain

from cpuaccel.compile.bridge import VIEW_OPS
from cpuaccel.compile.bridge.plan_text import TYPES
from cpuaccel.compile.bridge.translation import Translation
from cpuaccel.compile.partition import cost
from cpuaccel.compile.partition.partition import Partition
from cpuaccel.compile.partition.work import rows_of, work_of

Sides = tuple[list[Partition], list[Partition]]
"""The partitions that make what a partition reads, and those that read what it makes."""


def choose_partitions(partitions: list[Partition], translation: Translation) -> None:
    """Choose by the table: layers first, then the partitions between them and beside them."""
    neighbors = _neighbors(partitions, translation)
    layers: list[Partition] = []
    others: list[Partition] = []
    for partition in partitions:
        partition.choice = cost.Choice(False, "oneDNN Graph does not support it")
        if partition.supported:
            (layers if _is_layer(partition, translation) else others).append(partition)
    ids = {id(partition) for partition in layers}
    for partition in layers:
        place = "chain" if _reaches_another_layer(partition, neighbors, ids) else "alone"
        partition.choice = cost.choose(_facts(partition, place, translation))
    changed = True
    while changed:
        changed = False
        for partition in others:
            if partition.choice.taken:
                continue
            sides = sum(
                any(other.choice.taken for other in side) for side in neighbors[id(partition)]
            )
            partition.choice = cost.choose(_facts(partition, cost.PLACES[sides], translation))
            changed = changed or partition.choice.taken
    drop_incomplete_units(partitions)


def _is_layer(partition: Partition, translation: Translation) -> bool:
    return cost.family_of(partition.kinds(translation)) in cost.LAYER_FAMILIES


def _reaches_another_layer(
    partition: Partition, neighbors: dict[int, Sides], layers: Container[int]
) -> bool:
    """Say whether a path through supported partitions leads from a layer to another one."""
    seen, stack = {id(partition)}, [partition]
    while stack:
        for other in chain(*neighbors[id(stack.pop())]):
            if id(other) in seen or not other.supported:
                continue
            if id(other) in layers:
                return True
            seen.add(id(other))
            stack.append(other)
    return False


def _facts(partition: Partition, place: str, translation: Translation) -> cost.Facts:
    operations = [translation.operations[number] for number in partition.operations]
    result = translation.values[operations[-1].outputs[0]]
    return cost.Facts(
        [op.kind for op in operations],
        TYPES[result.dtype],
        rows_of(operations, translation.values),
        work_of(operations, translation.values),
        place,
    )


def drop_incomplete_units(partitions: list[Partition]) -> None:
    """Drop every partition that shares a unit with a partition that is not taken."""
    changed = True
    while changed:
        not_taken = {
            id(unit)
            for partition in partitions
            if not partition.choice.taken
            for unit in partition.units
        }
        changed = False
        for partition in partitions:
            if partition.choice.taken and any(id(unit) in not_taken for unit in partition.units):
                partition.choice = cost.Choice(False, "part of an op that is a fallback")
                changed = True


def _neighbors(partitions: list[Partition], translation: Translation) -> dict[int, Sides]:
    """Return the sides of each partition by its id.

    View ops are looked through: the neighbors of a view op count too.
    """
    maker: dict[int, Partition] = {}
    readers: dict[int, list[Partition]] = defaultdict(list)
    for partition in partitions:
        for number in partition.operations:
            op = translation.operations[number]
            maker.update((value, partition) for value in op.outputs)
            for value in op.inputs:
                readers[value].append(partition)

    def before(partition: Partition) -> Iterable[Partition]:
        operations = (translation.operations[number] for number in partition.operations)
        return (maker[value] for op in operations for value in op.inputs if value in maker)

    def behind(partition: Partition) -> Iterable[Partition]:
        operations = (translation.operations[number] for number in partition.operations)
        return (other for op in operations for value in op.outputs for other in readers[value])

    def reached(
        partition: Partition, step: Callable[[Partition], Iterable[Partition]]
    ) -> list[Partition]:
        found: dict[int, Partition] = {}
        stack = [partition]
        while stack:
            for other in step(stack.pop()):
                if other is partition or id(other) in found:
                    continue
                found[id(other)] = other
                if all(kind in VIEW_OPS for kind in other.kinds(translation)):
                    stack.append(other)
        return list(found.values())

    return {
        id(partition): (reached(partition, before), reached(partition, behind))
        for partition in partitions
    }
