"""Counts the slices and teams that a plan's layers run in."""

from __future__ import annotations

import re

from torch import Tensor, nn

import cpuaccel
from cpuaccel import _native

WHOLE, SLICED = 0, 64
"""Tuning results as csrc/dnnl/tuning_cache.h numbers them: oneDNN's own choice, and slices."""


def slices_of(model: nn.Module, x: Tensor, kind: str) -> list[int]:
    """Return the number of slices of each oneDNN step `kind...`; 1 if it is not sliced."""
    text = str(cpuaccel.explain(model, (x,)))
    found = re.findall(rf"^{kind}\S* +(onednn .*)$", text, flags=re.MULTILINE)
    return [int((re.findall(r" in (\d+) slices", each) or ["1"])[0]) for each in found]


def teams_of(model: nn.Module, x: Tensor) -> int:
    """Return the teams that a call opens, after the calls that choose steps for teams."""
    native = _native.load()
    for _ in range(3):
        before = native.teams_opened()
        model(x)
    return native.teams_opened() - before
