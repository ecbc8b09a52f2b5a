"""Translates an ATen graph to ops of oneDNN Graph and of cpuaccel, where these have them.

The functions of the package `bridge` translate one kind of node each. They get a `Translation`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from cpuaccel.compile.bridge.plan_text import TYPES, Attribute, Operation, Value
from cpuaccel.compile.common.context_values import holding


class Fallback(Exception):
    """Raised for a node that is a fallback; the text is the reason, empty if nothing is to gain."""


@dataclass
class Unit:
    """Nodes that were translated together, and the ops that compute `result`."""

    nodes: list[Node]
    result: Node
    operations: list[int] = field(default_factory=list)


class Translation:
    """The values and ops of a translation, and the nodes that they stand for.

    `constants` are nodes whose values do not change between calls: weights. `in_place`: whether
    regions may mutate what the graph mutates.
    """

    def __init__(self, constants: set[Node], in_place: bool = False) -> None:
        self.constants = constants
        self.in_place = in_place
        self.values: dict[int, Value] = {}
        self.operations: list[Operation] = []
        self.preparations: dict[int, Operation] = {}
        """By the number of the value that they make."""
        self.units: list[Unit] = []
        self.unit_of: dict[Node, Unit] = {}
        self.numbers: dict[Node, int] = {}
        self.node_of: dict[int, Node] = {}
        """The node of each value's number."""
        self.looked_through: set[tuple[Node, Node]] = set()
        """Pairs of a reader and a source that it does not read: it reads the source's own sources.
        """
        self._unit: Unit | None = None
        self._removed: set[Node] = set()
        self._readers_through: dict[Node, list[Node]] = {}

    # Reading the graph

    def tensor(self, node: Any) -> Tensor:
        """Return the fake tensor of `node`; raise Fallback for unsupported dtypes and layouts."""
        value = node.meta.get("val") if isinstance(node, Node) else None
        if not isinstance(value, Tensor):
            raise Fallback("a number instead of a tensor")
        if value.device.type != "cpu" or value.layout != torch.strided:
            raise Fallback("not a strided tensor on the CPU")
        if value.dtype not in TYPES:
            raise Fallback(f"dtype {value.dtype}")
        if any(isinstance(size, int) and size == 0 for size in value.shape):
            raise Fallback("empty tensor")
        if value.is_complex() or value.is_quantized:
            raise Fallback("complex or quantized dtype")
        return value

    def is_constant(self, node: Any) -> bool:
        """Whether `node` is a weight, or made only of weights by view ops or casts."""
        return isinstance(node, Node) and node in self.constants

    def look_through(self, reader: Node, *sources: Node) -> None:
        """Record that `reader` does not wait for `sources`, but for their own sources."""
        self.looked_through.update((reader, source) for source in sources)
        for source in sources:
            self._readers_through.setdefault(source, []).append(reader)

    def readers_looking_through(self, node: Node) -> list[Node]:
        """Return the readers that `look_through` named for this source."""
        return self._readers_through.get(node, [])

    # Adding to the translation

    def begin(self, nodes: Sequence[Node], result: Node) -> None:
        """Begin a unit: the following ops compute `result`, and replace `nodes`."""
        self._unit = Unit(list(nodes), result)

    def end(self) -> None:
        """Add the unit that was made since `begin`."""
        assert self._unit is not None
        self.units.append(self._unit)
        for node in self._unit.nodes:
            self.unit_of[node] = self._unit
        self._unit = None

    def read(self, node: Any) -> int:
        """Return the number of the value of `node`."""
        self.tensor(node)
        return self._number(node)

    def read_constant(self, node: Any) -> int:
        """Return the number of a constant that only preparations read, which may have any dtype."""
        if node not in self.numbers:
            self._name(
                node, self._new(Value(node.meta["val"].dtype, tuple(node.meta["val"].shape)))
            )
        return self.numbers[node]

    def op(
        self,
        kind: str,
        inputs: Sequence[int],
        to: Node | None = None,
        like: Value | None = None,
        **attributes: Attribute,
    ) -> int:
        """Add an op that writes the value of `to`, or a new value like `like` without a node."""
        number = self._number(to) if to is not None else self._new(_required(like))
        assert self._unit is not None
        self._unit.operations.append(len(self.operations))
        self.operations.append(Operation(kind, tuple(inputs), (number,), dict(attributes)))
        return number

    def prepare(
        self, name: str, inputs: Sequence[int], likes: Sequence[Value], **attributes: Attribute
    ) -> list[int]:
        """Add constants that are computed from constants, once."""
        made = [self._new(like) for like in likes]
        preparation = Operation(name, tuple(inputs), tuple(made), dict(attributes))
        for number in made:
            self.preparations[number] = preparation
        return made

    def make_constant(self, node: Node, name: str, **attributes: Attribute) -> None:
        """Turn `node` into a constant that is computed from the constant it reads."""
        (number,) = self.prepare(
            name, [self.read(node.args[0])], [value_of(self.tensor(node))], **attributes
        )
        self.name_constant(node, number)

    def name_constant(self, node: Node, number: int) -> None:
        """Make `node` a constant, with this number."""
        self._name(node, number)
        self.constants.add(node)

    def replace(
        self,
        unit: Unit,
        more: Sequence[Node],
        kind: str,
        inputs: Sequence[int],
        attributes: dict[str, Attribute],
    ) -> None:
        """Replace the only op of `unit` by one that also computes the last node of `more`."""
        (place,) = unit.operations
        unit.nodes += more
        unit.result = more[-1]
        number = self._number(unit.result)
        self.operations[place] = Operation(kind, tuple(inputs), (number,), attributes)
        for node in more:
            self.unit_of[node] = unit

    def undo(self) -> None:
        """Remove what was added since `begin`."""
        if self._unit is not None and self._unit.operations:
            del self.operations[self._unit.operations[0] :]
        self._unit = None

    def remove_unread_units(self) -> None:
        """Remove units whose results all readers look through."""
        while True:
            read = {
                number
                for unit in self.units
                for place in unit.operations
                for number in self.operations[place].inputs
            }
            unread = [
                unit
                for unit in self.units
                if self.numbers[unit.result] not in read and not self._is_read(unit.result)
            ]
            if not unread:
                return
            for unit in unread:
                self.units.remove(unit)
                for node in unit.nodes:
                    del self.unit_of[node]
                    self._removed.add(node)

    def _is_read(self, node: Node) -> bool:
        """Say whether a node that was not translated reads `node`."""
        return any(
            (user, node) not in self.looked_through
            and user not in self._removed
            and user not in self.unit_of
            and not self._is_looked_through(user)
            for user in node.users
        )

    def _is_looked_through(self, node: Node) -> bool:
        """Say whether all readers of a node look through it, and there are some."""
        users = list(node.users)
        return bool(users) and all((user, node) in self.looked_through for user in users)

    def _number(self, node: Node) -> int:
        number = self.numbers.get(node)
        if number is None:
            number = self._new(value_of(self.tensor(node)))
            self._name(node, number)
        return number

    def _name(self, node: Node, number: int) -> None:
        self.numbers[node] = number
        self.node_of[number] = node

    def _new(self, value: Value) -> int:
        number = len(self.values)
        self.values[number] = value
        return number


def value_of(tensor: Tensor) -> Value:
    """Return dtype and sizes of a tensor, with dynamic sizes as numbers by `hint`."""
    return Value(tensor.dtype, tuple(map(hint, tensor.shape)))


_hints: ContextVar[Mapping[str, int]] = ContextVar("hints", default=MappingProxyType({}))


def hints(sizes: Mapping[str, int]) -> AbstractContextManager[None]:
    """Use these sizes for the symbols with these names, instead of the traced ones."""
    return holding(_hints, sizes)


def hint(size: Any) -> int:
    """Return a size; for a dynamic size, its likely value: from `hints`, or as it was traced."""
    if isinstance(size, int):
        return size
    node = size.node
    sizes, symbols = _hints.get(), node.expr.free_symbols
    if all(str(each) in sizes for each in symbols):
        return int(node.expr.subs({each: sizes[str(each)] for each in symbols}))
    known = node.hint if node.has_hint() else None
    if known is None:
        raise Fallback("data-dependent shape")
    return int(known)


def _required(value: Value | None) -> Value:
    assert value is not None
    return value
