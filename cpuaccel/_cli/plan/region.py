"""Splits a region of a graph into its plan steps or partitions, and finds which reads which."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from cpuaccel._explain.plan_steps import Plan
from cpuaccel.compile.bridge.plan_text import TYPES, Operation, PlanText, parse, plan_name
from cpuaccel.compile.common import torch_names


@dataclass(frozen=True)
class StepOrPartition:
    """A measured plan step, or a partition of a plan that was not measured: no kernel, no times."""

    kinds: str
    sizes: str
    """`source * weights -> result`."""
    dtype: str
    """Dtype of the source."""
    kernel: str
    microseconds: float | None
    of_bound: float | None
    """As in `cpuaccel._explain.plan_steps.Step`."""
    reads: tuple[int, ...]
    """Values of the region, or copies that are not in its text."""
    writes: tuple[int, ...]


class Region:
    """A region, from its text and from its measured plan if there is one."""

    def __init__(self, text: str, plan: Plan | None = None) -> None:
        self.program: PlanText = parse(text)
        self.name = plan_name(text)
        self.steps = self._partitions() if plan is None else _of_steps(plan)
        self._writers = {
            value: number for number, step in enumerate(self.steps) for value in step.writes
        }
        self._made = {
            value: operation
            for partition in self.program.partitions
            for operation in partition
            for value in operation.outputs
        }
        self._given = {*self.program.inputs, *self.program.constants}

    def sources(self, value: int) -> tuple[set[int], set[int]]:
        """Return the numbers of the steps that write `value`, and the values of the call in it.

        A value that no step writes is a view of its source. Or several steps write parts of it,
        such as the inputs of a concatenation.
        """
        steps: set[int] = set()
        given: set[int] = set()
        seen: set[int] = set()
        waiting = [value]
        while waiting:
            current = waiting.pop()
            if current in seen:
                continue
            seen.add(current)
            if current in self._writers:
                steps.add(self._writers[current])
            elif current in self._given:
                given.add(current)
            elif current in self._made:
                waiting.extend(self._made[current].inputs)
        return steps, given

    def _partitions(self) -> list[StepOrPartition]:
        made = {value for each in self.program.preparations for value in each.outputs}
        constants = made.union(self.program.constants)
        return [self._partition(each, constants) for each in self.program.partitions]

    def _partition(self, operations: list[Operation], constants: set[int]) -> StepOrPartition:
        made = {value for operation in operations for value in operation.outputs}
        read = dict.fromkeys(value for operation in operations for value in operation.inputs)
        first = operations[0].inputs
        weights = [
            value
            for value in first[1:2]
            if value in constants and len(self.program.values[value].sizes) > 1
        ]
        result = operations[-1].outputs[0]
        dtype, _, source = self.tensor(first[0]).partition(" ")
        factors = [source, *(self.tensor(each).partition(" ")[2] for each in weights)]
        return StepOrPartition(
            "+".join(operation.kind for operation in operations),
            f"{' * '.join(factors)} -> {self.tensor(result).partition(' ')[2]}",
            dtype,
            "",
            None,
            None,
            tuple(value for value in read if value not in made),
            tuple(made),
        )

    def tensor(self, value: int) -> str:
        """Return dtype and sizes of a value; for a copy, those of the value that it copies."""
        while value not in self.program.values:
            value = self.steps[self._writers[value]].reads[0]
        found = self.program.values[value]
        return tensor_text(found.dtype, found.sizes)


def tensor_text(dtype: torch.dtype, sizes: Iterable[int | str]) -> str:
    """Return dtype and sizes as steps print them: `u8 1x32x112x112`."""
    name = TYPES.get(dtype, torch_names.name_of(dtype))
    return f"{name} {'x'.join(map(str, sizes)) or 'scalar'}"


def _of_steps(plan: Plan) -> list[StepOrPartition]:
    return [
        StepOrPartition(
            step.kinds,
            step.sizes,
            step.dtype,
            step.kernel,
            step.microseconds,
            step.of_bound,
            step.inputs,
            step.outputs,
        )
        for step in plan.steps
    ]
