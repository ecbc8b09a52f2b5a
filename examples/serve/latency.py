"""Latency percentiles."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


def percentile(sorted_values: Sequence[float], percent: float) -> float:
    """The smallest of the values that at least `percent` percent do not exceed; not interpolated.

    Raises:
        ValueError: there are no values, or `percent` is not within (0, 100].
    """
    if not sorted_values:
        raise ValueError("percentile: expected values, got none")
    if not 0 < percent <= 100:
        raise ValueError(f"percentile: percent: expected more than 0, at most 100, got {percent}")
    return sorted_values[math.ceil(percent / 100 * len(sorted_values)) - 1]


@dataclass(frozen=True)
class Latency:
    """Percentiles in milliseconds over `count` answers."""

    count: int
    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Latency":
        """From the seconds of single answers, in any order."""
        ordered = sorted(seconds)
        p50, p90, p99 = (1e3 * percentile(ordered, each) for each in (50, 90, 99))
        return cls(len(ordered), p50, p90, p99)
