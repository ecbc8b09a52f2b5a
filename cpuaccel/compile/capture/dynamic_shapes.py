"""Dynamic sizes of a capture: symbolic shapes and strides, ranges of the symbols, and conditions.

torch.export finds them while it traces. A size is a number, or an expression of symbols. Conditions
are the guards under which the graph was traced, such as `(s0 - 1) // 32 + 1 != 1`.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from types import CodeType
from typing import Any

from cpuaccel.compile.capture.call_signature import Call, TensorSignature, Value

Size = int | str

_NODES = (
    ast.Expression,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.IfExp,
    ast.Call,
    ast.Name,
    ast.Constant,
    ast.Load,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
)
"""Nodes of Python's syntax tree that arithmetic expressions may have."""

_FUNCTIONS: dict[str, Any] = {
    "max": max,
    "min": min,
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "sqrt": math.sqrt,
    "float": float,
    "int": int,
    "round": round,
}

_MOST_LETTERS = 10_000


@lru_cache(maxsize=4096)
def _compiled(text: str) -> CodeType:
    """Return the code of an expression that is arithmetic only.

    Raises:
        ValueError: it is not arithmetic.
    """
    try:
        if len(text) > _MOST_LETTERS:
            raise ValueError(f"longer than {_MOST_LETTERS} characters")
        tree = ast.parse(text, mode="eval")
        for node in ast.walk(tree):
            is_number = not isinstance(node, ast.Constant) or isinstance(node.value, (int, float))
            is_known = not isinstance(node, ast.Call) or (
                isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and not node.keywords
            )
            if not isinstance(node, _NODES) or isinstance(node, ast.Pow):
                raise ValueError(f"{type(node).__name__} is not arithmetic")
            if not is_number or not is_known:
                raise ValueError("unknown constant or function")
        return compile(tree, "<sizes>", "eval")
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"expected an expression: {error}") from None


def _value(size: Size, symbols: Mapping[str, int]) -> Any:
    if isinstance(size, int):
        return size
    if size in symbols:
        return symbols[size]
    return eval(_compiled(size), {"__builtins__": {}, **_FUNCTIONS}, dict(symbols))


@dataclass(frozen=True)
class Range:
    """The sizes that a symbol may have, both ends included, and the symbol's name in messages."""

    least: int
    most: int | None
    name: str = ""

    def contains(self, size: int) -> bool:
        """Whether a size is in the range."""
        return size >= self.least and (self.most is None or size <= self.most)

    def __str__(self) -> str:
        return f"{self.least} or more" if self.most is None else f"{self.least} to {self.most}"


@dataclass(frozen=True)
class _SymbolSource:
    """A size of an argument, from which a symbol is read: `factor` times the symbol plus `term`."""

    symbol: str
    leaf: int
    dim: int
    factor: int
    term: int

    @property
    def is_symbol(self) -> bool:
        """Whether the size is the symbol itself."""
        return (self.factor, self.term) == (1, 0)

    def range_of(self, symbols: Range) -> Range:
        """Return the range of this size if the symbol has the range `symbols`."""
        most = None if symbols.most is None else self.factor * symbols.most + self.term
        return Range(self.factor * symbols.least + self.term, most)

    def in_words(self) -> str:
        """Return the symbol as an expression of the argument's size."""
        size = f"size {self.dim} of argument {self.leaf}"
        if self.is_symbol:
            return size
        size = f"({size} - {self.term})" if self.term else f"({size})"
        return f"{size} / {self.factor}"


def _symbol_source(size: Size, leaf: int, dim: int) -> _SymbolSource | None:
    """Return how to get a symbol from a size; None if the size does not determine one."""
    if isinstance(size, int):
        return None
    words = set(_compiled(size).co_names)
    if len(words) != 1 or words & _FUNCTIONS.keys():
        return None
    (symbol,) = words
    if size == symbol:
        return _SymbolSource(symbol, leaf, dim, 1, 0)
    at = [_value(size, {symbol: number}) for number in (0, 1, 2, 1000)]
    factor, term = at[1] - at[0], at[0]
    if factor < 1 or any(a != factor * n + term for a, n in zip(at, (0, 1, 2, 1000), strict=True)):
        return None
    return _SymbolSource(symbol, leaf, dim, factor, term)


@dataclass(frozen=True)
class DynamicSizes:
    """Sizes and strides of the tensors of a call; None for leaves other than tensors."""

    shapes: tuple[tuple[Size, ...] | None, ...]
    strides: tuple[tuple[Size, ...] | None, ...]
    ranges: dict[str, Range]
    conditions: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        for sizes in (*self.shapes, *self.strides):
            for size in sizes or ():
                if not isinstance(size, int):
                    _compiled(size)
        for each in self.conditions:
            _compiled(each)

    @cached_property
    def _symbol_sources(self) -> dict[str, _SymbolSource]:
        """Where each symbol is read from: a size that is the symbol itself, if there is one."""
        sources: dict[str, _SymbolSource] = {}
        for leaf, sizes in enumerate(self.shapes):
            for dim, size in enumerate(sizes or ()):
                source = _symbol_source(size, leaf, dim)
                if source is not None:
                    before = sources.setdefault(source.symbol, source)
                    if source.is_symbol and not before.is_symbol:
                        sources[source.symbol] = source
        return sources

    def unknown_symbols(self) -> list[str]:
        """Return the symbols that no size of an argument determines."""
        return sorted(self.ranges.keys() - self._symbol_sources.keys())

    def mismatch(self, shapes: Sequence[Sequence[int] | None]) -> str:
        """Return why these sizes are rejected, by argument and dimension; empty if they are not."""
        symbols = self._symbols(shapes)
        if isinstance(symbols, str):
            return symbols
        for leaf, (sizes, given) in enumerate(zip(self.shapes, shapes, strict=True)):
            for dim, (size, got) in enumerate(zip(sizes or (), given or (), strict=True)):
                expected = _value(size, symbols)
                if expected != got:
                    where = f"argument {leaf}, dimension {dim}"
                    same = f", which is {self._shown(size)}" if isinstance(size, str) else ""
                    return f"{where}: expected {expected}{same}, got {got}"
        for condition in self.conditions:
            if not _holds(condition, symbols):
                values = self._values_in_words(symbols)
                return f"sizes: expected {self._shown(condition)}, got {values}"
        return ""

    def fitting(self, call: Call) -> Call:
        """Return `call` with the strides that the graph expects at the sizes of `call`.

        Raises:
            ValueError: its sizes are rejected.
        """
        shapes = shapes_of(call)
        reason = self.mismatch(shapes)
        if reason:
            raise ValueError(reason)
        symbols = self._symbols(shapes)
        assert not isinstance(symbols, str)
        return self._call_at(call, symbols)

    def other_calls(self, call: Call) -> Iterator[Call]:
        """Yield calls of other sizes than `call`, the call that the graph was traced with.

        One has sizes nearby. In the other, each symbolic size is 1 if its range allows that.
        """
        traced = self._symbols(shapes_of(call))
        assert not isinstance(traced, str)
        nearby = {
            symbol: next(
                (size for size in (at + 1, at - 1) if self.ranges[symbol].contains(size)), at
            )
            for symbol, at in traced.items()
        }
        ones = {
            symbol: 1 if self.ranges[symbol].contains(1) else at for symbol, at in traced.items()
        }
        for symbols in (nearby, ones):
            if symbols != traced and all(_holds(each, symbols) for each in self.conditions):
                yield self._call_at(call, symbols)

    def nearby(self, call: Call) -> Call | None:
        """Return a call with other sizes than `call`, except sizes of 1; None if none fits.

        Raises:
            ValueError: the sizes of `call` are rejected.
        """
        symbols = self._symbols(shapes_of(call))
        if isinstance(symbols, str):
            raise ValueError(symbols)
        for step in (1, 2, 4, 8, 16, 32, 64):  # some models accept only multiples
            moved = {name: at if at == 1 else at + step for name, at in symbols.items()}
            fits = all(self.ranges[name].contains(at) for name, at in moved.items())
            if moved != symbols and fits and all(_holds(each, moved) for each in self.conditions):
                return self._call_at(call, moved)
        return None

    def dimensions(self) -> set[tuple[int, int]]:
        """Return the dimensions that vary, as (leaf, dimension)."""
        return {
            (leaf, dim)
            for leaf, sizes in enumerate(self.shapes)
            for dim, size in enumerate(sizes or ())
            if isinstance(size, str)
        }

    def from_zero(self) -> DynamicSizes:
        """Return it with ranges from 0 where torch assumed 2 or more by default."""
        return self._with_least(lambda _, least: 0 if least == 2 else least)

    def with_ones_of(self, call: Call) -> DynamicSizes:
        """Return it with ranges from 1, not 2, for symbols that are 1 in `call`."""
        shapes = shapes_of(call)
        ones = {
            symbol
            for symbol, source in self._symbol_sources.items()
            if source.is_symbol and (shapes[source.leaf] or ())[source.dim] == 1
        }
        return self._with_least(lambda symbol, least: 1 if least == 2 and symbol in ones else least)

    def from_two(self) -> DynamicSizes:
        """Return it without the sizes 0 and 1, which torch specializes while it traces."""
        return self._with_least(lambda _, least: max(least, 2))

    def _with_least(self, of: Callable[[str, int], int]) -> DynamicSizes:
        """Return it with new lower bounds: `of` gets each symbol and its lower bound."""
        ranges = {
            symbol: replace(each, least=of(symbol, each.least))
            for symbol, each in self.ranges.items()
        }
        return replace(self, ranges=ranges)

    def _call_at(self, call: Call, symbols: Mapping[str, int]) -> Call:
        leaves: list[TensorSignature | Value] = []
        for leaf, shape, strides in zip(call.leaves, self.shapes, self.strides, strict=True):
            if isinstance(leaf, TensorSignature) and shape is not None and strides is not None:
                sizes, steps = (
                    tuple(int(_value(each, symbols)) for each in some) for some in (shape, strides)
                )
                leaf = leaf._replace(shape=sizes, stride=steps)
            leaves.append(leaf)
        return Call(call.spec, tuple(leaves), call.autocast)

    def _symbols(self, shapes: Sequence[Sequence[int] | None]) -> dict[str, int] | str:
        """Return the values of the symbols; or the reason why these sizes are rejected."""
        if len(shapes) != len(self.shapes):
            return f"expected {len(self.shapes)} arguments, got {len(shapes)}"
        for leaf, (sizes, given) in enumerate(zip(self.shapes, shapes, strict=True)):
            if (sizes is None) != (given is None) or len(sizes or ()) != len(given or ()):
                return f"argument {leaf}: expected {_rank(sizes)}, got {_rank(given)}"
        symbols: dict[str, int] = {}
        for symbol, source in self._symbol_sources.items():
            found = shapes[source.leaf]
            assert found is not None
            size, taken = found[source.dim], self.ranges.get(symbol, Range(0, None))
            symbols[symbol] = (size - source.term) // source.factor
            if not taken.contains(symbols[symbol]):
                return f"{self._where(source)}: expected {source.range_of(taken)}, got {size}"
        return symbols

    def _where(self, source: _SymbolSource) -> str:
        name = self.ranges[source.symbol].name if source.symbol in self.ranges else ""
        behind = f" ({name})" if name and source.is_symbol else ""
        return f"argument {source.leaf}, dimension {source.dim}{behind}"

    def _shown(self, size: str) -> str:
        return re.sub(r"\b[A-Za-z_]\w*\b", lambda found: self._name_of(found[0]), size)

    def _name_of(self, word: str) -> str:
        if word not in self._symbol_sources:
            return word
        source = self._symbol_sources[word]
        name = self.ranges[word].name if word in self.ranges else ""
        return name or source.in_words()

    def _values_in_words(self, symbols: Mapping[str, int]) -> str:
        return ", ".join(f"{self._shown(symbol)} = {size}" for symbol, size in symbols.items())

    def __str__(self) -> str:
        """Return `[2, 3 or more, 16]` for each tensor."""
        return ", ".join(
            f"[{', '.join(map(self._in_range, sizes))}]" for sizes in self.shapes if sizes
        )

    def _in_range(self, size: Size) -> str:
        if isinstance(size, str) and size in self.ranges:
            found = self.ranges[size]
            return f"{found.name}: {found}" if found.name else str(found)
        return str(size) if isinstance(size, int) else self._shown(size)

    # In files

    def facts(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "shapes": self.shapes,
            "strides": self.strides,
            "ranges": {
                name: [each.least, each.most, each.name] for name, each in self.ranges.items()
            },
            "conditions": self.conditions,
        }

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> DynamicSizes:
        """Return the sizes whose `facts` these are.

        Raises:
            ValueError: an expression is not arithmetic.
        """
        return cls(
            _tuples(facts["shapes"]),
            _tuples(facts["strides"]),
            {name: Range(*each) for name, each in facts["ranges"].items()},
            tuple(facts["conditions"]),
        )


def shapes_of(call: Call) -> list[tuple[int, ...] | None]:
    """Return the shape of each leaf of a call; None for leaves other than tensors."""
    return [each.shape if isinstance(each, TensorSignature) else None for each in call.leaves]


def _holds(condition: str, symbols: Mapping[str, int]) -> bool:
    try:
        return bool(_value(condition, symbols))
    except ArithmeticError:
        return False


def _rank(sizes: Iterable[Any] | None) -> str:
    return "no tensor" if sizes is None else f"a tensor of {len(list(sizes))} dimensions"


def _tuples(each: Iterable[Any]) -> tuple[tuple[Size, ...] | None, ...]:
    return tuple(None if sizes is None else tuple(sizes) for sizes in each)
