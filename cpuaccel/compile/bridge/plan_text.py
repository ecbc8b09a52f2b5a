"""The text of a region's plan, from which csrc/plan/region.h makes plans: written and read.

csrc/plan/region.h defines the lines. The first one has a digest of the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

Attribute = bool | int | float | str | Sequence[int] | Sequence[float]

TYPES = {
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.uint8: "u8",
    torch.int8: "s8",
    torch.int32: "s32",
}
_OTHER = "other"
"""The dtype of constants that only preparations read, if TYPES lacks it."""
_DTYPES = {name: dtype for dtype, name in TYPES.items()} | {_OTHER: torch.int64}
"""int64 is a placeholder for any other dtype."""
_VERSION = "1"


@dataclass(frozen=True)
class Value:
    """A tensor of a region: its dtype, and the sizes that it was traced with."""

    dtype: torch.dtype
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Operation:
    """One op of oneDNN Graph."""

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: dict[str, Attribute] = field(default_factory=dict)


@dataclass(frozen=True)
class Output:
    """A value that a region returns, and its memory layout."""

    value: int
    channels_last: bool


@dataclass(frozen=True)
class PlanText:
    """What one call runs. Each of the `partitions` comes after those whose results it reads."""

    values: dict[int, Value]
    inputs: list[int]
    constants: list[int]
    outputs: list[Output]
    preparations: list[Operation]
    partitions: list[list[Operation]]

    @cached_property
    def text(self) -> str:
        """The text, as `parse` and csrc/plan/region.h read it."""
        body = "\n".join(_written(self))
        return f"graph {_VERSION} {_digest(body)}\n{body}\n"

    def used(self) -> set[int]:
        """Return the numbers of the values that the text has. `values` may have more."""
        operations = [*self.preparations, *(op for part in self.partitions for op in part)]
        used = {number for op in operations for number in (*op.inputs, *op.outputs)}
        return used | set(self.inputs) | set(self.constants)

    def renumbered(self) -> PlanText:
        """Return the plan with its values numbered as they come: equal layers have equal texts."""
        operations = [*self.preparations, *(op for part in self.partitions for op in part)]
        of_operations = (number for op in operations for number in (*op.inputs, *op.outputs))
        found = dict.fromkeys((*self.inputs, *self.constants, *of_operations))
        numbers = {number: index for index, number in enumerate(found)}

        def operation(op: Operation) -> Operation:
            inputs, outputs = (
                tuple(numbers[each] for each in some) for some in (op.inputs, op.outputs)
            )
            return Operation(op.kind, inputs, outputs, op.attributes)

        return PlanText(
            {index: self.values[number] for number, index in numbers.items()},
            [numbers[each] for each in self.inputs],
            [numbers[each] for each in self.constants],
            [Output(numbers[each.value], each.channels_last) for each in self.outputs],
            [operation(each) for each in self.preparations],
            [[operation(each) for each in part] for part in self.partitions],
        )


def parse(text: str) -> PlanText:
    """Return the `PlanText` whose `text` this is.

    Raises:
        ValueError: it is not the text of a region; the message names the line.
    """
    plan = PlanText({}, [], [], [], [], [])
    for number, line in enumerate(text.splitlines(), 1):
        try:
            _read(plan, line.split())
        except (ValueError, KeyError, IndexError) as error:
            shown = f"line {number}, {line[:80]!r}"
            raise ValueError(f"not the text of a region: {shown}: {error!r}") from error
    return plan


def check_digest(text: str) -> None:
    """Raise ValueError if the text of a region does not match its digest."""
    first, _, body = text.partition("\n")
    words = first.split()
    if words[:2] != ["graph", _VERSION] or len(words) != 3:
        raise ValueError(
            f"expected the text of a region to begin with 'graph {_VERSION}', got {first[:80]!r}"
        )
    if _digest(body.removesuffix("\n")) != words[2]:
        raise ValueError("damaged: the text of a region is not as it was written")


def plan_name(text: str) -> str:
    """Return the name of a region's plans, the first letters of the digest."""
    return text.split(maxsplit=3)[2][:8]


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


# Each line of the text stands in `_written` and in `_read`, in the same order.


def _written(plan: PlanText) -> Iterable[str]:
    for number in sorted(plan.used()):
        value = plan.values[number]
        sizes = "x".join(map(str, value.sizes)) or "-"
        yield f"value {number} {TYPES.get(value.dtype, _OTHER)} {sizes}"
    if plan.inputs:
        yield " ".join(["input", *map(str, plan.inputs)])
    if plan.constants:
        yield " ".join(["constant", *map(str, plan.constants)])
    for output in plan.outputs:
        layout = "channels_last" if output.channels_last else "contiguous"
        yield f"output {output.value} {layout}"
    for preparation in plan.preparations:
        yield f"prepare {_written_operation(preparation)}"
    for partition in plan.partitions:
        yield "partition"
        for operation in partition:
            yield f"op {_written_operation(operation)}"


def _read(plan: PlanText, words: list[str]) -> None:
    match words:
        case ["graph", version, *_] if version == _VERSION:
            pass
        case ["value", number, dtype, sizes]:
            found = () if sizes == "-" else tuple(map(int, sizes.split("x")))
            plan.values[int(number)] = Value(_DTYPES[dtype], found)
        case ["input", *numbers]:
            plan.inputs.extend(map(int, numbers))
        case ["constant", *numbers]:
            plan.constants.extend(map(int, numbers))
        case ["output", value, ("contiguous" | "channels_last") as layout]:
            plan.outputs.append(Output(int(value), layout == "channels_last"))
        case ["prepare", kind, "in", *rest]:
            plan.preparations.append(_read_operation(kind, rest))
        case ["partition"]:
            plan.partitions.append([])
        case ["op", kind, "in", *rest]:
            plan.partitions[-1].append(_read_operation(kind, rest))
        case _:
            raise ValueError(f"expected a line of a graph of version {_VERSION}")


def _written_operation(operation: Operation) -> str:
    wires = ["in", *map(str, operation.inputs), "out", *map(str, operation.outputs)]
    attributes = [f"{name}={_attribute(value)}" for name, value in operation.attributes.items()]
    return " ".join([operation.kind, *wires, *attributes])


def _read_operation(kind: str, words: list[str]) -> Operation:
    out = words.index("out")
    outputs = [word for word in words[out + 1 :] if "=" not in word]
    attributes = {}
    for word in words[out + 1 + len(outputs) :]:
        name, _, value = word.partition("=")
        attributes[name] = _read_attribute(value)
    return Operation(kind, tuple(map(int, words[:out])), tuple(map(int, outputs)), attributes)


_ATTRIBUTES: dict[str, tuple[type, Callable[[Any], str], Callable[[str], Attribute]]] = {
    "b": (bool, lambda value: str(int(value)), lambda text: bool(int(text))),
    "i": (int, str, int),  # bool, a subclass of int, comes first
    "f": (float, repr, float),
    "s": (str, str, str),
}
"""Types of attributes other than lists, and what writes and reads their values."""


def _attribute(value: Attribute) -> str:
    for name, (kind, write, _) in _ATTRIBUTES.items():
        if isinstance(value, kind):
            return f"{name}:{write(value)}"
    numbers: Any = value
    name = "fs" if any(isinstance(number, float) for number in numbers) else "is"
    return f"{name}:{','.join(map(repr, numbers))}"


def _read_attribute(text: str) -> Attribute:
    name, _, value = text.partition(":")
    if name in ("is", "fs"):
        numbers = [each for each in value.split(",") if each]
        return [int(each) if each.lstrip("-").isdigit() else float(each) for each in numbers]
    return _ATTRIBUTES[name][2](value)
