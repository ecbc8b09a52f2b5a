"""Collects the cases of all families, and finds overrides that no case calls."""

import importlib
from typing import Any

from benchmarks.ops.never_slower import (
    _bags,
    _gradients,
    _images,
    _layers,
    _products,
    _quantized,
    _recurrent,
    _rows,
    _sparse,
)
from benchmarks.ops.never_slower._case import Case

_FAMILIES = (_products, _images, _gradients, _recurrent, _quantized, _rows, _bags, _sparse, _layers)


def all_cases() -> list[Case]:
    """Every case, by family."""
    return [case for family in _FAMILIES for case in family.cases()]


def overrides() -> list[tuple[str, str]]:
    """The ops that cpuaccel registers kernels for, with their dispatch keys."""
    native: Any = importlib.import_module("cpuaccel._native").load()
    return [(str(name), str(key)) for name, key in native.overridden_kernels()]


def without_case(registered: list[tuple[str, str]], cases: list[Case]) -> list[str]:
    """The overrides in `registered` that no case calls."""
    known = {(case.op, case.key) for case in cases}
    return [f"{op} ({key})" for op, key in registered if (op, key) not in known]
