"""Which partitions of oneDNN Graph are taken: those that win where they were measured.

What is not taken stays with Inductor, which fuses it with what is around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cpuaccel.graph.bridge import MOVES, QUANTIZED_LAYERS

LAYERS = frozenset({"Convolution", "ConvTranspose", "MatMul"}) | QUANTIZED_LAYERS


@dataclass(frozen=True)
class Choice:
    """Whether a partition is taken, and why."""

    taken: bool
    reason: str


@dataclass(frozen=True)
class Facts:
    """What is known of a partition when it is chosen or not."""

    kinds: Sequence[str]
    between_taken: bool
    """Whether what is taken makes what it reads, and reads what it makes."""
    beside_taken: bool
    """Whether another partition that is taken makes what it reads, or reads what it makes."""


@dataclass(frozen=True)
class _Row:
    matches: Callable[[Facts], bool]
    choice: Choice


def _has(*kinds: str) -> Callable[[Facts], bool]:
    return lambda facts: any(kind in kinds for kind in facts.kinds)


# The first row that matches decides.
_ROWS = (
    _Row(
        _has("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean"),
        Choice(False, "oneDNN has only its reference for reductions"),
    ),
    _Row(_has("SoftMax"), Choice(False, "Inductor fuses it with what is around it")),
    _Row(
        lambda facts: _has("LayerNorm")(facts) and not facts.between_taken,
        Choice(False, "Inductor fuses norms with what is around them"),
    ),
    _Row(
        lambda facts: _has("attention")(facts) and not facts.beside_taken,
        Choice(False, "alone: Inductor calls the same kernel"),
    ),
    _Row(_has(*LAYERS), Choice(True, "layers with what follows them")),
    _Row(
        lambda facts: facts.between_taken,
        Choice(True, "between layers"),
    ),
    _Row(
        lambda facts: facts.beside_taken and not _has(*MOVES)(facts),
        Choice(True, "between layers, in their layout"),
    ),
    _Row(lambda _: True, Choice(False, "alone: Inductor fuses it with what is around it")),
)


def choose(facts: Facts) -> Choice:
    """Return what the first row says that matches."""
    return next(row.choice for row in _ROWS if row.matches(facts))
