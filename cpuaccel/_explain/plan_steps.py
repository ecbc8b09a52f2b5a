"""The measured plans of a model and their steps, as `explain` returns and prints them."""

from __future__ import annotations

from dataclasses import dataclass

from cpuaccel._explain.text_table import aligned

HEADER = ("step", "kernel", "sizes", "type", "us", "rate", "of bound", "of time")
"""The columns of `Step.cells()`."""


@dataclass(frozen=True)
class Step:
    """One step of a plan, as it was measured."""

    kinds: str
    """Ops that it computes, named as in oneDNN Graph or cpuaccel's own: `Convolution+ReLU`."""
    kernel: str
    """Library and implementation."""
    sizes: str
    """`source * weights -> result`."""
    dtype: str
    """Type of the source: f32, bf16, u8 ..."""
    microseconds: float
    gmacs: float
    """10^9 multiply-adds a second; 0 for steps without any."""
    gigabytes: float
    """10^9 bytes read and written a second."""
    of_bound: float
    """The least time that this machine needs, divided by the time that the step took.

    The least time is the longer one of two: its multiply-adds at the peak arithmetic rate, and its
    bytes at the bandwidth of the memory or cache that they fit into.
    """
    of_time: float
    """Its share of the plan's time."""
    inputs: tuple[int, ...]
    """Values of the region that it reads. One that the region lacks is a copy of one it has."""
    outputs: tuple[int, ...]
    """Values that it writes."""

    def cells(self) -> tuple[str, ...]:
        """Return the columns of a table."""
        rate = f"{self.gmacs:.0f} GMAC/s" if self.gmacs else f"{self.gigabytes:.1f} GB/s"
        return (self.kinds, self.kernel, self.sizes, self.dtype, f"{self.microseconds:.1f}", rate,
                f"{self.of_bound:.0%}", f"{self.of_time:.1%}")  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """The steps that one call of a region runs, and their times."""

    name: str
    microseconds: float
    """Time of a call, from the start of its first step to the end of its last."""
    between: float
    """Microseconds of a call that are spent outside of its steps."""
    runs: int
    """Number of timed calls; all times are their medians."""
    steps: tuple[Step, ...]

    def summary(self) -> str:
        """Return its name and times as one line."""
        share = self.between / self.microseconds
        return (
            f"plan {self.name}: {self.microseconds:.1f} us a call, {self.runs} calls,"
            f" {self.between:.1f} us ({share:.1%}) between steps"
        )

    def __str__(self) -> str:
        return f"{self.summary()}\n{aligned(HEADER, [step.cells() for step in self.steps])}"
