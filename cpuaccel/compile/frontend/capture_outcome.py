"""The outcome of capturing for inputs of one kind: a capture that runs, or the reason for none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cpuaccel.compile.capture.capture import Capture
from cpuaccel.compile.common.report import Report
from cpuaccel.compile.validate.verdict import Verdict


@dataclass(frozen=True, eq=False)
class Captured:
    """The capture for inputs of one kind and its report, or the reason why there is none."""

    run: Callable[..., Any] | None
    report: Report | None
    verdict: Verdict
    why_not: str = ""
    capture: Capture | None = None
    beside: Captured | None = None
    """The capture of symbolic sizes that was made along with it."""
    why_not_beside: str = ""
    """The reason why no capture of symbolic sizes is made later either."""
    is_checked: bool = True
    """False for a capture of symbolic sizes that was not compared at other sizes than those of its
    trace."""
