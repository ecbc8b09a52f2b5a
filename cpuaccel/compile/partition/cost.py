"""Decides which partitions of oneDNN Graph run on cpuaccel: those that were measured to be faster.

The family of a partition is the first row of `_FAMILIES` that has one of its kinds. A partition
also has a place. A layer is in a chain with other layers, or alone. Any other partition is between
partitions that are taken, beside one, or alone. `costs.csv` says how many times faster than
Inductor such a partition ran together with the ops around it; the benchmark
`benchmarks.partition.costs` measures it. Partitions that are not taken stay with Inductor, which
fuses them with the ops around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass

from cpuaccel import _native
from cpuaccel.compile.bridge import (
    DECODER_STEPS,
    MUTATIONS,
    QUANTIZED,
    QUANTIZED_LAYERS,
    VIEW_OPS,
)
from cpuaccel.compile.common.context_values import holding
from cpuaccel.compile.partition import cost_table

ELEMENTWISE = "elementwise"
_FAMILIES: tuple[tuple[str, frozenset[str]], ...] = (
    ("reduction", frozenset({"ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd"})),
    ("softmax", frozenset({"SoftMax", "LogSoftmax"})),
    ("layer_norm", frozenset({"LayerNorm"})),
    ("attention", frozenset({"attention"})),
    ("quantized layer", QUANTIZED_LAYERS),
    ("quantized", QUANTIZED),
    ("convolution", frozenset({"Convolution", "ConvTranspose"})),
    ("product", frozenset({"MatMul"})),
    ("pool", frozenset({"MaxPool", "AvgPool"})),
    ("view", VIEW_OPS),
    ("mutation", MUTATIONS),
    ("decoder step", DECODER_STEPS),
)

LAYER_FAMILIES = frozenset({"quantized layer", "convolution", "product"})

LAYERS = frozenset().union(*(kinds for name, kinds in _FAMILIES if name in LAYER_FAMILIES))
"""Kinds of ops that are layers."""

PLACES = ("alone", "beside", "between")


@dataclass(frozen=True)
class Choice:
    """Whether a partition is taken, and the reason."""

    taken: bool
    reason: str


@dataclass(frozen=True)
class Facts:
    """What is known about a partition when the choice is made."""

    kinds: Sequence[str]
    dtype: str
    """That of its result, as region texts spell it."""
    M: int
    """Rows of a product's result; 0 if there is no product."""
    work: int
    """Multiply-adds of a layer, or else elements of the result, for the traced sizes."""
    place: str
    """Of a layer: "chain" if a path of supported partitions leads from it to another layer, else
    "alone". Of others, one of `PLACES`: "between" if partitions that are taken make what it reads
    and also read what it makes; "beside" if only one of the two; "alone"."""


def family_of(kinds: Sequence[str]) -> str:
    """Return the first family that contains one of `kinds`."""
    found = (name for name, its in _FAMILIES if any(kind in its for kind in kinds))
    return next(found, ELEMENTWISE)


# Choices that do not depend on measurements, by (family, place); place "" is any.
_FIXED: dict[tuple[str, str], Choice] = {
    ("quantized layer", ""): Choice(True, "quantized layer: same integers as in eager mode"),
    ("quantized", "between"): Choice(True, "between layers: same integers as in eager mode"),
    ("quantized", "beside"): Choice(True, "beside a layer: same integers as in eager mode"),
    ("quantized", "alone"): Choice(False, "alone: Inductor fuses it with the ops around it"),
    ("decoder step", "between"): Choice(True, "decoder step between layers"),
    ("decoder step", "beside"): Choice(True, "decoder step beside a layer"),
    ("decoder step", "alone"): Choice(False, "alone: no other partition is next to it"),
    ("mutation", "between"): Choice(True, "in-place update between layers"),
    ("mutation", "beside"): Choice(True, "in-place update beside a layer"),
    ("mutation", "alone"): Choice(False, "alone: no other partition is next to it"),
    ("view", "between"): Choice(True, "view op between layers"),
    ("view", "beside"): Choice(False, "view op alone: Inductor fuses it with the ops around it"),
    ("view", "alone"): Choice(False, "view op alone: Inductor fuses it with the ops around it"),
}

_LEAST = {"chain": 0.97, "between": 0.97, "alone": 1.03, "beside": 1.03}
"""By place, the speedup over Inductor that is enough. A partition that joins others has to be as
fast, within the noise of medians; one that is cut off from the ops around it has to be faster."""

_FUSED_IN_EAGER = frozenset({"attention", "elementwise", "layer_norm", "pool"})
"""Families that are taken beside layers if torch would run the remaining ops one by one."""

_eager: ContextVar[bool] = ContextVar("eager", default=False)
_packaged: ContextVar[bool] = ContextVar("packaged", default=False)
_overruled: ContextVar[dict[str, bool] | None] = ContextVar("overruled", default=None)


def against_eager() -> AbstractContextManager[None]:
    """Choose for graphs whose other ops torch runs one by one, without fusing them."""
    return holding(_eager, True)


def for_packages() -> AbstractContextManager[None]:
    """Choose for packages, whose files hold packed weights of the products that are left."""
    return holding(_packaged, True)


def overrule(decisions: dict[str, bool]) -> AbstractContextManager[None]:
    """Take or leave the named families, whatever the table says. Used to measure the table."""
    return holding(_overruled, decisions)


def overruled() -> dict[str, bool]:
    """Return the decisions of the current `overrule`, if any."""
    return _overruled.get() or {}


def _is_widened(dtype: str) -> bool:
    """Say whether arithmetic of `dtype` is float32 arithmetic on this CPU."""
    native = _native.load()
    return (dtype == "bf16" and not native.has_bf16_arithmetic()) or (
        dtype == "f16" and not native.has_fp16_arithmetic()
    )


def choose(facts: Facts) -> Choice:
    """Return the choice for a partition: by `overrule`, fixed rules, or the first matching row."""
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
        return Choice(True, "product of one row in a chain: runs the kernel that torch would call")
    widened = _is_widened(facts.dtype)
    if widened and family == "product" and (facts.place == "chain" or facts.M > 1):
        return Choice(True, f"product of {facts.dtype} weights in f32 arithmetic")
    dtype = "bf16" if widened else facts.dtype
    row = cost_table.find(family, facts.place, dtype, facts.M, facts.work)
    if row is None and family == "attention" and facts.place != "alone":
        return Choice(
            True,
            f"attention {facts.place}: no slower than torch's kernel, which would split the region",
        )
    if row is None:
        return Choice(False, f"{family} {facts.place}: not measured")
    return Choice(
        row.speedup >= _LEAST[facts.place],
        f"{family} {facts.place}: {row.speedup:.2f} times Inductor's speed ({row.measured})",
    )
