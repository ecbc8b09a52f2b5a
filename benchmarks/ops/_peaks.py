"""What the machine does at most, as cpuaccel_bench measures it."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import torch

from benchmarks import _machine
from benchmarks.ops import kernels
from benchmarks.ops._kernel_results import KernelResult

_GIGA = 1e9
_READ = "read "
# Twice a multiply-add of floats; there is no peak of bf16 arithmetic yet.
_OPERATIONS_OF = {torch.float32: "fp32"}


@dataclass(frozen=True)
class MachinePeaks:
    """Most operations of floats and most bytes from memory a second, of all threads; 0: unknown.

    `cache` is what the last cache holds, bytes.
    """

    flops: float
    bytes: float
    cache: int

    def bound(self, flops: int, moved: int) -> float | None:
        """Seconds that so much work takes at least, or None where no peak is known.

        What the last cache holds stays there from call to call: nothing of it has to be moved.
        """
        if not self.flops or not self.bytes:
            return None
        moving = moved / self.bytes if moved > self.cache else 0.0
        return max(flops / self.flops, moving)

    def best(self, other: "MachinePeaks") -> "MachinePeaks":
        """The higher of both."""
        return MachinePeaks(max(self.flops, other.flops), max(self.bytes, other.bytes), self.cache)


def meter(dtype: torch.dtype) -> Callable[[], MachinePeaks] | None:
    """Measures the peaks for products of `dtype`; None where there is none of its arithmetic."""
    operations = _OPERATIONS_OF.get(dtype)
    if operations is None:
        return None
    results = _program()
    return lambda: of_results(results(), operations)


def reading() -> Callable[[], dict[str, float]]:
    """Measures the bytes read a second, by where they lie: L1, L2, L3, memory."""
    results = _program()
    return lambda: rates_of_reading(results())


def rates_of_reading(results: list[KernelResult]) -> dict[str, float]:
    """Bytes read a second among the rows that cpuaccel_bench wrote, by place."""
    reads = [(row.shape.removeprefix(_READ), row) for row in results if row.shape.startswith(_READ)]
    return {place: _GIGA * row.rate for place, row in reads}


def _program() -> Callable[[], list[KernelResult]]:
    """Builds cpuaccel_bench; what is returned runs its peaks, on torch's number of threads."""
    program = kernels._build()

    def run() -> list[KernelResult]:
        options = argparse.Namespace(
            family="peaks", filter="", threads=torch.get_num_threads(), rounds=9, budget=0.2
        )
        return kernels._run(program, options)

    return run


def of_results(results: list[KernelResult], operations: str) -> MachinePeaks:
    """The peaks among the rows that cpuaccel_bench wrote."""
    multiply_adds = [row.rate for row in results if row.shape == operations]
    reading = [row.rate for row in results if row.shape == "read memory"]
    return MachinePeaks(
        2 * _GIGA * max(multiply_adds, default=0.0),
        _GIGA * max(reading, default=0.0),
        _machine.last_cache(),
    )
