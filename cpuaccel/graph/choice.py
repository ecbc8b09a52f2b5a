"""Decides which partitions of oneDNN Graph run on cpuaccel: those that were measured to be faster.

The family of a partition is the first row of `_FAMILIES` that has one of its kinds. A partition
also has a place. A layer is in a chain with other layers, or alone. Any other partition is between
partitions that are taken, beside one, or alone. `choice.csv` says how many times faster than
Inductor such a partition ran together with the ops around it; `python -m benchmarks.graph.choices`
measures it. Partitions that are not taken stay with Inductor, which fuses them with the ops around
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from cpuaccel.graph import choice_table
from cpuaccel.graph.bridge import MOVES, QUANTIZED, QUANTIZED_LAYERS, WRITES

ELEMENTWISE = "elementwise"
_FAMILIES: tuple[tuple[str, frozenset[str]], ...] = (
    ("reduction", frozenset({"ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd"})),
    ("softmax", frozenset({"SoftMax", "LogSoftmax"})),
    ("layer_norm", frozenset({"LayerNorm"})),
    ("attention", frozenset({"attention"})),
    ("quantised layer", QUANTIZED_LAYERS),
    ("quantised", QUANTIZED),
    ("convolution", frozenset({"Convolution", "ConvTranspose"})),
    ("product", frozenset({"MatMul"})),
    ("pool", frozenset({"MaxPool", "AvgPool"})),
    ("move", MOVES),
    ("write", WRITES),
)

LAYER_FAMILIES = frozenset({"quantised layer", "convolution", "product"})

LAYERS = frozenset().union(*(kinds for name, kinds in _FAMILIES if name in LAYER_FAMILIES))
"""Kinds of ops that are layers."""

PLACES = ("alone", "beside", "between")


@dataclass(frozen=True)
class Choice:
    """Whether a partition is taken, and why."""

    taken: bool
    reason: str


@dataclass(frozen=True)
class Facts:
    """What is known of a partition when it is chosen or not."""

    kinds: Sequence[str]
    dtype: str
    """Of its result, as programs spell it."""
    M: int
    """Rows of a product's result; 0 of anything else."""
    work: int
    """Multiply-adds of a layer, elements of the result of anything else, as it was traced."""
    place: str
    """Of a layer: "chain" if what is supported leads from it to another one, else "alone". Of
    anything else one of `PLACES`: "between" if what is taken makes what it reads, and reads what it
    makes; "beside" if one of the two; "alone"."""


def family_of(kinds: Sequence[str]) -> str:
    """Return the first family that one of `kinds` is of."""
    found = (name for name, its in _FAMILIES if any(kind in its for kind in kinds))
    return next(found, ELEMENTWISE)


# What no measuring decides: (family, place) to a choice; place "" is any.
_FIXED: dict[tuple[str, str], Choice] = {
    ("quantised layer", ""): Choice(True, "the integers that eager computes"),
    ("quantised", "between"): Choice(True, "between layers, the integers that eager computes"),
    ("quantised", "beside"): Choice(True, "beside a layer, the integers that eager computes"),
    ("quantised", "alone"): Choice(False, "alone: Inductor fuses it with what is around it"),
    ("write", "between"): Choice(True, "in place, between layers"),
    ("write", "beside"): Choice(True, "in place, beside a layer"),
    ("write", "alone"): Choice(False, "alone: nothing else is in its place"),
    ("move", "between"): Choice(True, "between layers"),
    ("move", "beside"): Choice(False, "moves alone: Inductor fuses it with what is around it"),
    ("move", "alone"): Choice(False, "moves alone: Inductor fuses it with what is around it"),
}

_LEAST = {"chain": 0.97, "between": 0.97, "alone": 1.03, "beside": 1.03}
"""By place, the speed over Inductor's that is enough: as fast, as far as medians can tell, where a
partition joins others; faster where it parts with what is around it."""

_FUSED_IN_EAGER = frozenset({"attention", "elementwise", "layer_norm", "pool"})
"""Families that are taken beside layers where torch would run what is left op by op."""

_Held = TypeVar("_Held")

_eager: ContextVar[bool] = ContextVar("eager", default=False)
_packaged: ContextVar[bool] = ContextVar("packaged", default=False)
_overruled: ContextVar[dict[str, bool] | None] = ContextVar("overruled", default=None)


@contextmanager
def _holding(variable: ContextVar[_Held], value: _Held) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def against_eager() -> AbstractContextManager[None]:
    """Choose for graphs whose rest torch runs op by op: nothing else fuses what is there."""
    return _holding(_eager, True)


def for_packages() -> AbstractContextManager[None]:
    """Choose for packages, in whose files weights of products that are left are packed."""
    return _holding(_packaged, True)


def overrule(decisions: dict[str, bool]) -> AbstractContextManager[None]:
    """Take, or leave, the families that are named, whatever the table says: to measure it."""
    return _holding(_overruled, decisions)


def overruled() -> dict[str, bool]:
    """Return what `overrule` was given, where it holds."""
    return _overruled.get() or {}


def choose(facts: Facts) -> Choice:
    """Return what the table says of the first row that matches."""
    family = family_of(facts.kinds)
    if family in overruled():
        return Choice(overruled()[family], "overruled")
    fixed = _FIXED.get((family, "")) or _FIXED.get((family, facts.place))
    if fixed is not None:
        return fixed
    if _eager.get() and family in _FUSED_IN_EAGER:
        return Choice(facts.place != "alone", f"{family} {facts.place}: torch runs it op by op")
    of_one_row = family == "product" and facts.M == 1 and facts.place == "chain"
    if of_one_row and not _packaged.get():
        return Choice(True, "product of one row in a chain: the kernel that torch would call")
    row = choice_table.find(family, facts.place, facts.dtype, facts.M, facts.work)
    if row is None and family == "attention" and facts.place != "alone":
        return Choice(True, f"attention {facts.place}: no slower than torch's, which parts a plan")
    if row is None:
        return Choice(False, f"{family} {facts.place}: not measured")
    return Choice(
        row.speedup >= _LEAST[facts.place],
        f"{family} {facts.place}: {row.speedup:.2f} times Inductor's speed ({row.measured})",
    )
