"""Decomposition tables that keep ops whole for oneDNN, which Inductor would decompose at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch._inductor.decomposition import select_decomp_table

from cpuaccel._ops import resize
from cpuaccel.compile.bridge import TAKEN_APART, TRANSLATIONS
from cpuaccel.compile.passes import linear_from_bmm

Decompositions = dict[Any, Callable[..., Any]]

_OURS: Decompositions = {**TAKEN_APART, **linear_from_bmm.TAKEN_APART}
"""Decompositions that Inductor lacks, or that differ from Inductor's."""


class _Table(dict[Any, Callable[..., Any]]):
    """The table of `without_kept`, which Inductor's cache keys pickle by that name.

    Some of its functions cannot be pickled; nothing would be cached then.
    """

    def __reduce__(self) -> Any:
        return without_kept, ()


def everything() -> Decompositions:
    """Return all of Inductor's decompositions, and cpuaccel's own."""
    return {**select_decomp_table(), torch.ops.cpuaccel.resize.default: resize.resize, **_OURS}


@cache
def of_kept() -> Decompositions:
    """Return the decompositions of the ops that stay whole."""
    table = everything()
    return {**{op: table[op] for op in TRANSLATIONS if op in table}, **_OURS}


@cache
def without_kept() -> Decompositions:
    """Return Inductor's decompositions, except those of ops that stay whole."""
    whole = of_kept()
    return _Table({op: function for op, function in everything().items() if op not in whole})
