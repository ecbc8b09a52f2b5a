"""Reads the sizes that a traced graph accepts from torch's symbols, ranges and guards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from cpuaccel._compat import PythonPrinter
from cpuaccel.compile.capture.dynamic_shapes import DynamicSizes, Range, Size


def sizes_of(
    inputs: Iterable[Node],
    ranges: Mapping[Any, Any],
    names: Mapping[tuple[int, int], str] | None = None,
) -> DynamicSizes | None:
    """Return the sizes that a graph with these inputs accepts; None if all of them are numbers.

    `ranges` are torch.export's range_constraints; `names` are the names of sizes, by leaf and
    dimension.

    Raises:
        ValueError: a size or a condition is not arithmetic on the sizes of inputs.
    """
    values = [node.meta.get("val") for node in inputs]
    tensors = [each if isinstance(each, Tensor) else None for each in values]
    shape_env = _shape_env(tensors)
    if shape_env is None:
        return None
    printed = _Printed(shape_env)
    shapes = [None if each is None else tuple(map(printed.size, each.shape)) for each in tensors]
    strides = [
        None if each is None else tuple(map(printed.size, each.stride())) for each in tensors
    ]
    conditions = dict.fromkeys(printed.condition(guard.expr) for guard in shape_env.guards)
    conditions.pop("True", None)
    bounds = {str(symbol): each for symbol, each in ranges.items()}
    called = {(shapes[leaf] or ())[dim]: name for (leaf, dim), name in (names or {}).items()}
    found = {
        name: _range(bounds.get(name, shape_env.var_to_range.get(symbol)), called.get(name, ""))
        for name, symbol in printed.symbols.items()
    }
    if not any(isinstance(size, str) for sizes in shapes for size in sizes or ()):
        return None  # all symbols were specialized
    sizes = DynamicSizes(tuple(shapes), tuple(strides), found, tuple(conditions))
    if unknown := sizes.unknown_symbols():
        raise ValueError(f"a symbolic size that no input determines: {', '.join(unknown)}")
    return sizes


def dimensions_of_symbols(inputs: Iterable[Node]) -> dict[Any, tuple[int, int]]:
    """Return where each symbol is a size of an input: the input's number, and its dimension."""
    places: dict[Any, tuple[int, int]] = {}
    for number, node in enumerate(inputs):
        value = node.meta.get("val")
        for dim, size in enumerate(value.shape if isinstance(value, Tensor) else ()):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                places.setdefault(size.node.expr, (number, dim))
    return places


def symbol_values(inputs: Iterable[Node], shapes: Sequence[Sequence[int] | None]) -> dict[str, int]:
    """Return the values of the symbols in the inputs' sizes for a call with these shapes."""
    return {
        str(symbol): (shapes[number] or ())[dim]
        for symbol, (number, dim) in dimensions_of_symbols(inputs).items()
    }


_MOST = 2**48


def _shape_env(tensors: list[Tensor | None]) -> Any:
    for each in tensors:
        for size in () if each is None else each.shape:
            if isinstance(size, torch.SymInt):
                return size.node.shape_env
    return None


class _Printed:
    """Converts sympy's expressions to Python's syntax, and collects their symbols."""

    def __init__(self, shape_env: Any) -> None:
        self._shape_env = shape_env
        self._print = PythonPrinter().doprint
        self.symbols: dict[str, Any] = {}

    def size(self, size: Any) -> Size:
        if isinstance(size, int):
            return size
        expression = self._shape_env.replace(size.node.expr)
        return int(expression) if expression.is_number else self._text(expression)

    def condition(self, expression: Any) -> str:
        return self._text(self._shape_env.replace(expression))

    def _text(self, expression: Any) -> str:
        for symbol in expression.free_symbols:
            self.symbols[str(symbol)] = symbol
        return str(self._print(expression)).replace("math.", "")


def _range(bounds: Any, name: str) -> Range:
    if bounds is None:
        return Range(0, None, name)
    # torch's integer infinity claims to be finite.
    return Range(int(bounds.lower), int(bounds.upper) if bounds.upper < _MOST else None, name)
