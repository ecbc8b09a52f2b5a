"""Writes regions as text, from which csrc/plan/region.h makes plans of oneDNN Graph ops."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

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
_OTHER = "other"  # the dtype of constants that only preparations read


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

    def line(self, word: str = "op") -> str:
        """Return it as a line of the text."""
        wires = ["in", *map(str, self.inputs), "out", *map(str, self.outputs)]
        attributes = [f"{name}={_attribute(value)}" for name, value in self.attributes.items()]
        return " ".join([word, self.kind, *wires, *attributes])


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
        """The text, as csrc/plan/region.h defines it; the first line has its digest."""
        body = "\n".join(self._lines())
        digest = hashlib.sha256(body.encode()).hexdigest()
        return f"graph 1 {digest}\n{body}\n"

    def _lines(self) -> Iterable[str]:
        for number in sorted(self._used()):
            value = self.values[number]
            sizes = "x".join(map(str, value.sizes)) or "-"
            yield f"value {number} {TYPES.get(value.dtype, _OTHER)} {sizes}"
        if self.inputs:
            yield " ".join(["input", *map(str, self.inputs)])
        if self.constants:
            yield " ".join(["constant", *map(str, self.constants)])
        for output in self.outputs:
            yield f"output {output.value} {_order(output.channels_last)}"
        for preparation in self.preparations:
            yield preparation.line("prepare")
        for partition in self.partitions:
            yield "partition"
            yield from (operation.line() for operation in partition)

    def _used(self) -> set[int]:
        operations = [*self.preparations, *(op for part in self.partitions for op in part)]
        used = {number for op in operations for number in (*op.inputs, *op.outputs)}
        return used | set(self.inputs) | set(self.constants)


def _order(channels_last: bool) -> str:
    return "channels_last" if channels_last else "contiguous"


def _attribute(value: Attribute) -> str:
    if isinstance(value, bool):
        return f"b:{int(value)}"
    if isinstance(value, int):
        return f"i:{value}"
    if isinstance(value, float):
        return f"f:{value!r}"
    if isinstance(value, str):
        return f"s:{value}"
    numbers = list(value)
    kind = "fs" if any(isinstance(number, float) for number in numbers) else "is"
    return f"{kind}:{','.join(map(repr, numbers))}"
