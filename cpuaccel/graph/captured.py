"""The outcome of capturing for inputs of one kind: a capture that runs, or the reason for none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cpuaccel.graph.capture import Capture
from cpuaccel.graph.report import Report
from cpuaccel.graph.verdict import Verdict


@dataclass(frozen=True, eq=False)
class Captured:
    """What was made for inputs of one kind: a graph and what became of it, or why there is none."""

    run: Callable[..., Any] | None
    report: Report | None
    verdict: Verdict
    why_not: str = ""
    capture: Capture | None = None
    beside: Captured | None = None
    """What was made of symbolic sizes with it."""
    why_not_beside: str = ""
    """Why nothing is to be made of symbolic sizes later either."""
    is_checked: bool = True
    """Whether it was compared for more sizes than it was made with."""
