"""Ops that are kept whole for oneDNN, where Inductor would take them apart at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from torch._inductor.decomposition import select_decomp_table

from cpuaccel.graph.bridge import TRANSLATIONS

Decompositions = dict[Any, Callable[..., Any]]


@cache
def _tables() -> tuple[Decompositions, Decompositions]:
    table: Decompositions = dict(select_decomp_table())
    kept = {op: table.pop(op) for op in TRANSLATIONS if op in table}
    return table, kept


def without_kept() -> Decompositions:
    """Return Inductor's decompositions but those of ops that are kept."""
    return _tables()[0]


def of_kept() -> Decompositions:
    """Return the decompositions of the ops that are kept."""
    return _tables()[1]


def everything() -> Decompositions:
    """Return all of Inductor's decompositions."""
    return {**_tables()[0], **_tables()[1]}
