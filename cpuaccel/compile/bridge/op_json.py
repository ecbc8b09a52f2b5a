"""Torch ops as JSON: the format, what writes it, and what makes functions from it.

An op is `[name, arguments, keyword arguments]`. Values have numbers: first the given ones, then the
result of each op, in order. In arguments, a list, number, string, boolean or null is what it is in
Python, and there are three more forms:

    {"value": n}         value n
    {"size": [n, dim]}   the size of value n, a tensor, in a dimension
    {"torch": name}      a dtype, layout, memory format or device (common/torch_names.py)

Two texts consist of such ops: the fallback of a region (`bridge/torch_fallback.py`), and the graph
of a file (`package/op_list.py`). csrc/bind/torch_fallback.cpp runs the first one without Python.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from cpuaccel._compat import OpOverload
from cpuaccel.compile.bridge.shapes import VIEWS
from cpuaccel.compile.bridge.translation import Fallback
from cpuaccel.compile.common import torch_names

GETITEM = "getitem"
"""The name of operator.getitem."""

_ON_SIZES: dict[Any, str] = {
    operator: "add sub mul floordiv mod neg truediv pow eq ne lt le gt ge and_ or_",
    torch: "sym_max sym_min sym_float sym_int sym_not",
    math: "ceil floor trunc",
}
_FUNCTIONS: dict[str, Any] = {
    GETITEM: operator.getitem,
    **{
        f"{module.__name__}.{name}": getattr(module, name)
        for module, names in _ON_SIZES.items()
        for name in names.split()
    },
}
"""What a graph may call besides ops, by name: getitem, and functions on sizes."""
_NAMES = {function: name for name, function in _FUNCTIONS.items()}


def is_named(target: Any) -> bool:
    """Say whether a graph's function has a name in this format."""
    return isinstance(target, OpOverload) or target in _NAMES


def name_of(target: Any) -> str:
    """Return the name by which `function_of` finds an op or function."""
    return _NAMES.get(target) or str(target)


@cache
def function_of(name: str) -> Any:
    """Return the op or function with this name."""
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    namespace, op, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), op), overload)


class Writer:
    """Writes the ops of a graph.

    A dynamic size that no op of the text computes is read from the first tensor that has it.
    """

    def __init__(self, given: Iterable[Node] = ()) -> None:
        self.ops: list[list[Any]] = []
        self.numbers: dict[Node, int] = {}
        self._count = 0
        self._sizes: dict[str, list[int]] = {}
        for node in given:
            self.add_value(node)

    def add_value(self, node: Node | None) -> int:
        """Number the next value, which may stand for no node; return its number."""
        number = self._count
        self._count += 1
        if node is not None:
            self.numbers[node] = number
            value = node.meta.get("val")
            for dim, size in enumerate(value.shape if isinstance(value, Tensor) else ()):
                if not isinstance(size, int):
                    self._sizes.setdefault(str(size), [number, dim])
        return number

    def add_op(
        self, target: Any, arguments: Any, keywords: Any, node: Node | None = None
    ) -> dict[str, int]:
        """Add an op with written arguments, which computes `node`; return its result, written."""
        self.ops.append([name_of(target), arguments, keywords])
        return {"value": self.add_value(node)}

    def arguments(self, node: Node) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments and keyword arguments of a node.

        Raises:
            Fallback: one of them cannot be written.
        """
        keywords = {key: self.written(value) for key, value in node.kwargs.items()}
        return self.written(_with_known_sizes(node)), keywords

    def written(self, value: Any) -> Any:
        """Return an argument as JSON values.

        Raises:
            Fallback: it cannot be written.
        """
        if isinstance(value, Node):
            if value in self.numbers or not is_size(value):
                return {"value": self.numbers[value]}
            size = self._sizes.get(str(value.meta["val"]))
            return {"size": size} if size else -1  # the op, a view, infers it
        if isinstance(value, (list, tuple)):
            found = [self.written(each) for each in value]
            unknown = any(
                isinstance(each, Node) and new == -1 for each, new in zip(value, found, strict=True)
            )
            if unknown and found.count(-1) > 1:
                raise Fallback("dynamic sizes that no input determines")
            return found
        if isinstance(value, torch_names.TYPES):
            return {"torch": torch_names.name_of(value)}
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        raise Fallback(f"an argument has type {type(value).__name__}")


def _with_known_sizes(node: Node) -> tuple[Any, ...]:
    """Return the arguments of a node, for a view with numbers instead of -1 where they are known.

    A view infers one size only, which may be that of another dimension.
    """
    value = node.meta.get("val")
    if node.target not in VIEWS or not isinstance(value, Tensor) or len(node.args) < 2:
        return node.args
    src, sizes, *rest = node.args
    assert isinstance(sizes, (list, tuple))
    known = [
        new if isinstance(each, int) and each == -1 and isinstance(new, int) else each
        for each, new in zip(sizes, value.shape, strict=True)
    ]
    return (src, known, *rest)


def is_size(node: Node) -> bool:
    """Say whether a node is a size, rather than one or several tensors."""
    return isinstance(node.meta.get("val"), (int, torch.SymInt))


Read = Callable[[list[Any]], Any]
"""Makes an argument, or the result of an op, from the list of the values so far."""


def reader(written: Any, constants: Mapping[int, Any] = MappingProxyType({})) -> Read:
    """Return a function that makes a written argument.

    `constants` are values that are the same in all calls, by number.
    """
    made, read = _made_or_read(written, constants)
    return _always(made) if read is None else read


def caller(op: Sequence[Any], constants: Mapping[int, Any] = MappingProxyType({})) -> Read:
    """Return a function that calls an op, with `constants` as in `reader`."""
    name, arguments, keywords = op
    function, read = function_of(name), reader(arguments, constants)
    made, named = _made_or_read(list(keywords.values()), constants)
    if named is None:
        if keywords:
            function = partial(function, **dict(zip(keywords, made, strict=True)))
        return lambda values: function(*read(values))
    return lambda values: function(*read(values), **dict(zip(keywords, named(values), strict=True)))


def _made_or_read(written: Any, constants: Mapping[int, Any]) -> tuple[Any, Read | None]:
    """Return an argument that is the same in all calls, or else None and its reader."""
    if isinstance(written, list):
        pairs = [_made_or_read(each, constants) for each in written]
        if all(read is None for _, read in pairs):
            return [made for made, _ in pairs], None
        readers = [_always(made) if read is None else read for made, read in pairs]
        return None, lambda values: [read(values) for read in readers]
    if not isinstance(written, dict):
        return written, None
    if "torch" in written:
        return torch_names.constant_of(written["torch"]), None
    if "size" in written:
        number, dim = written["size"]
        if number in constants:
            return constants[number].shape[dim], None
        return None, lambda values: values[number].shape[dim]
    number = written["value"]
    return (constants[number], None) if number in constants else (None, operator.itemgetter(number))


def _always(made: Any) -> Read:
    return lambda values: made


def numbers_in(written: Any) -> list[int]:
    """Return the numbers of the values that a written argument reads."""
    if isinstance(written, list):
        return [number for each in written for number in numbers_in(each)]
    if not isinstance(written, dict) or "torch" in written:
        return []
    return [written["value"]] if "value" in written else [written["size"][0]]
