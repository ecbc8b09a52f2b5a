"""Applies the table of measured speedups to the partitions of a graph, layers first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable
from itertools import chain

from cpuaccel.compile.bridge import MOVES
from cpuaccel.compile.bridge.plan_text import TYPES
from cpuaccel.compile.bridge.translation import Translation
from cpuaccel.compile.partition import cost
from cpuaccel.compile.partition.partition import Part
from cpuaccel.compile.partition.work import rows_of, work_of

Sides = tuple[list[Part], list[Part]]
"""The partitions that make what a partition reads, and those that read what it makes."""


def choose_parts(parts: list[Part], translation: Translation) -> None:
    """Choose by the table: layers first, then the partitions between them and beside them."""
    neighbors = _neighbors(parts, translation)
    layers: list[Part] = []
    others: list[Part] = []
    for part in parts:
        part.choice = cost.Choice(False, "oneDNN Graph does not support it")
        if part.supported:
            (layers if _is_layer(part, translation) else others).append(part)
    ids = {id(part) for part in layers}
    for part in layers:
        place = "chain" if _meets_another(part, neighbors, ids) else "alone"
        part.choice = cost.choose(_facts(part, place, translation))
    changed = True
    while changed:
        changed = False
        for part in others:
            if part.choice.taken:
                continue
            sides = sum(any(other.choice.taken for other in side) for side in neighbors[id(part)])
            part.choice = cost.choose(_facts(part, cost.PLACES[sides], translation))
            changed = changed or part.choice.taken
    leave_torn_units(parts)


def _is_layer(part: Part, translation: Translation) -> bool:
    return cost.family_of(part.kinds(translation)) in cost.LAYER_FAMILIES


def _meets_another(part: Part, neighbors: dict[int, Sides], layers: Container[int]) -> bool:
    """Say whether a path through supported parts leads from a layer to another one."""
    seen, stack = {id(part)}, [part]
    while stack:
        for other in chain(*neighbors[id(stack.pop())]):
            if id(other) in seen or not other.supported:
                continue
            if id(other) in layers:
                return True
            seen.add(id(other))
            stack.append(other)
    return False


def _facts(part: Part, place: str, translation: Translation) -> cost.Facts:
    operations = [translation.operations[number] for number in part.operations]
    result = translation.values[operations[-1].outputs[0]]
    return cost.Facts(
        [op.kind for op in operations],
        TYPES[result.dtype],
        rows_of(operations, translation.values),
        work_of(operations, translation.values),
        place,
    )


def leave_torn_units(parts: list[Part]) -> None:
    """Leave every partition that shares a unit with a partition that is left."""
    changed = True
    while changed:
        left = {id(unit) for part in parts if not part.choice.taken for unit in part.units}
        changed = False
        for part in parts:
            if part.choice.taken and any(id(unit) in left for unit in part.units):
                part.choice = cost.Choice(False, "part of an op that is a fallback")
                changed = True


def _neighbors(parts: list[Part], translation: Translation) -> dict[int, Sides]:
    """Return the sides of each part by its id.

    Moves are looked through: the neighbors of a move count too.
    """
    maker: dict[int, Part] = {}
    readers: dict[int, list[Part]] = defaultdict(list)
    for part in parts:
        for number in part.operations:
            op = translation.operations[number]
            maker.update((value, part) for value in op.outputs)
            for value in op.inputs:
                readers[value].append(part)

    def before(part: Part) -> Iterable[Part]:
        operations = (translation.operations[number] for number in part.operations)
        return (maker[value] for op in operations for value in op.inputs if value in maker)

    def behind(part: Part) -> Iterable[Part]:
        operations = (translation.operations[number] for number in part.operations)
        return (other for op in operations for value in op.outputs for other in readers[value])

    def reached(part: Part, step: Callable[[Part], Iterable[Part]]) -> list[Part]:
        found: dict[int, Part] = {}
        stack = [part]
        while stack:
            for other in step(stack.pop()):
                if other is part or id(other) in found:
                    continue
                found[id(other)] = other
                if all(kind in MOVES for kind in other.kinds(translation)):
                    stack.append(other)
        return list(found.values())

    return {id(part): (reached(part, before), reached(part, behind)) for part in parts}
