"""The verdict of `cpuaccel.optimize` on a model: its error, its speed, and what runs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cpuaccel.compile.validate.bounds import BOUNDS
from cpuaccel.compile.validate.comparison import Difference

PLAN, MODEL = "plan", "model"
FP32 = "fp32 "
"""The prefix of these names for the model that another one was quantized from."""

NOISE = 1.03
"""The ratio of times above which something counts as slower."""


@dataclass(frozen=True)
class Verdict:
    """What is known about a model for one input signature: what runs, and the reason."""

    inputs: str
    """Dtypes and sizes of tensors, and the values of other inputs."""
    runs: str
    """"plan" or "model"; with two models also "fp32 plan" or "fp32 model"."""
    reason: str
    """The reason why that runs."""
    arithmetic: str = ""
    """fp32, bf16 or int8, which determines the bound; empty if nothing was compared."""
    difference: Difference | None = None
    """The difference between the plan's results and the model's."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds of one call, by what ran: medians of calls in turns; empty if nothing was timed."""
    distance: float | None = None
    """With two models: the distance of the int8 result from fp32's, relative to the norm of fp32's.
    """

    @property
    def bound(self) -> str:
        """The bound of this arithmetic, as text."""
        return BOUNDS.get(self.arithmetic, "")

    def __str__(self) -> str:
        parts = [f"the {self.runs} runs: {self.reason}"]
        if self.difference is not None and self.difference.problem:
            parts.append(self.difference.problem)
        elif self.difference is not None:
            parts.append(f"in {self.arithmetic} the plan is {self.difference}")
        if self.seconds:
            times = (f"{name} {in_words(each)}" for name, each in self.seconds.items())
            parts.append("a call takes: " + ", ".join(times))
        if self.distance is not None:
            parts.append(f"int8 differs from fp32 by {self.distance:.2g} of fp32's norm")
        return f"{self.inputs}: " + "; ".join(parts)


def is_slower(found: Sequence[float], other: Sequence[float]) -> bool:
    """Whether `found` is slower by more than noise in three quarters of the rounds."""
    ratios = [a / max(b, 1e-12) for a, b in zip(found, other, strict=True)]
    first = statistics.quantiles(ratios, n=4, method="inclusive")[0] if ratios[1:] else ratios[0]
    return first > NOISE


def in_words(seconds: float) -> str:
    """Return a time such as `1.25 ms` or `12.5 us`."""
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


def medians_of(seconds: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the median of each."""
    return {name: statistics.median(each) for name, each in seconds.items()}
