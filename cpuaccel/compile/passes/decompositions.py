"""Decomposition tables that preserve ops for oneDNN, which Inductor would decompose at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from cpuaccel._compat import select_decomp_table
from cpuaccel._ops import resize
from cpuaccel.compile.bridge import DECOMPOSITIONS, TRANSLATIONS
from cpuaccel.compile.passes import linear_from_bmm

Decompositions = dict[Any, Callable[..., Any]]

_CPUACCEL_DECOMPOSITIONS: Decompositions = {**DECOMPOSITIONS, **linear_from_bmm.DECOMPOSITIONS}
"""Decompositions that Inductor lacks, or that differ from Inductor's."""


class _Table(dict[Any, Callable[..., Any]]):
    """The table of `without_preserved`, which Inductor's cache keys pickle by that name.

    Some of its functions cannot be pickled; nothing would be cached then.
    """

    def __reduce__(self) -> Any:
        return without_preserved, ()


def all_decompositions() -> Decompositions:
    """Return all of Inductor's decompositions, and cpuaccel's own."""
    return {
        **select_decomp_table(),
        torch.ops.cpuaccel.resize.default: resize.resize,
        **_CPUACCEL_DECOMPOSITIONS,
    }


@cache
def of_preserved() -> Decompositions:
    """Return the decompositions of the preserved ops."""
    table = all_decompositions()
    return {**{op: table[op] for op in TRANSLATIONS if op in table}, **_CPUACCEL_DECOMPOSITIONS}


@cache
def without_preserved() -> Decompositions:
    """Return Inductor's decompositions, except those of the preserved ops."""
    preserved = of_preserved()
    return _Table(
        {op: function for op, function in all_decompositions().items() if op not in preserved}
    )
