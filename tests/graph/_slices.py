"""Counts the slices and teams that a plan's layers run in."""

from __future__ import annotations

import re

from torch import Tensor, nn

import cpuaccel
from cpuaccel import _native

WHOLE, SLICED = 0, 64
"""Tuning results as csrc/dnnl/ranks.h numbers them: oneDNN's own choice, and slices."""


def slices_of(model: nn.Module, x: Tensor, kind: str) -> list[int]:
    """Return how many each step of oneDNN has whose name begins with `kind`; 1 of a whole one."""
    text = str(cpuaccel.explain(model, (x,)))
    found = re.findall(rf"^{kind}\S* +(onednn .*)$", text, flags=re.MULTILINE)
    return [int((re.findall(r" in (\d+) slices", each) or ["1"])[0]) for each in found]


def teams_of(model: nn.Module, x: Tensor) -> int:
    """Return how many a call opens, after those that find out which steps fit one."""
    native = _native.load()
    for _ in range(3):
        before = native.teams_opened()
        model(x)
    return native.teams_opened() - before
