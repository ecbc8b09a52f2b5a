"""Decomposition tables that keep ops whole for oneDNN, which Inductor would decompose at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch._inductor.decomposition import select_decomp_table

from cpuaccel._ops import resize
from cpuaccel.graph import linears
from cpuaccel.graph.bridge import TAKEN_APART, TRANSLATIONS

Decompositions = dict[Any, Callable[..., Any]]

_OURS: Decompositions = {**TAKEN_APART, **linears.TAKEN_APART}
"""What Inductor has no decompositions of, or others."""


class _Table(dict[Any, Callable[..., Any]]):
    """The table of `without_kept`, by that name in keys of Inductor's caches.

    Some functions in it have none that could be written down, and then nothing would be cached.
    """

    def __reduce__(self) -> Any:
        return without_kept, ()


def everything() -> Decompositions:
    """Return all of Inductor's decompositions, and those of what is ours."""
    return {**select_decomp_table(), torch.ops.cpuaccel.resize.default: resize.resize, **_OURS}


@cache
def of_kept() -> Decompositions:
    """Return the decompositions of the ops that are kept."""
    table = everything()
    return {**{op: table[op] for op in TRANSLATIONS if op in table}, **_OURS}


@cache
def without_kept() -> Decompositions:
    """Return Inductor's decompositions but those of ops that are kept."""
    whole = of_kept()
    return _Table({op: function for op, function in everything().items() if op not in whole})
