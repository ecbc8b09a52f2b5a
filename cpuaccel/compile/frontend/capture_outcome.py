"""The outcome of capturing for one input signature: a capture that runs, or the reason for none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cpuaccel.compile.capture import input_signature
from cpuaccel.compile.capture.capture import Capture
from cpuaccel.compile.common.report import Report
from cpuaccel.compile.validate.verdict import MODEL, Verdict


@dataclass(frozen=True, eq=False)
class CaptureOutcome:
    """The capture for one input signature and its report, or the reason why the model runs."""

    run: Callable[..., Any] | None
    """Runs the capture; None: the model runs."""
    report: Report | None
    verdict: Verdict
    fallback_reason: str = ""
    """The reason why the model runs."""
    capture: Capture | None = None
    symbolic: CaptureOutcome | None = None
    """The outcome of the capture of symbolic sizes that was made along with it."""
    no_symbolic_reason: str = ""
    """The reason why no capture of symbolic sizes is made later either."""
    is_validated: bool = True
    """False for a capture of symbolic sizes that was validated only at the sizes of its trace."""


def model_runs(args: tuple[Any, ...], kwargs: dict[str, Any], reason: str) -> CaptureOutcome:
    """Return the outcome for inputs that the model runs for, for this `reason`."""
    verdict = Verdict(input_signature.describe(args, kwargs), MODEL, reason)
    return CaptureOutcome(None, None, verdict, reason)
