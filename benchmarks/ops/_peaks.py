"""This machine's peaks, arithmetic and memory bandwidth, as cpuaccel_bench measures them."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import torch

from benchmarks import _machine
from benchmarks.ops import kernels
from benchmarks.ops._kernel_results import KernelResult

_GIGA = 1e9
_READ = "read "
# A multiply-add of floats is two operations. There is no peak for bf16 arithmetic yet.
_OPERATIONS_OF = {torch.float32: "fp32"}


@dataclass(frozen=True)
class MachinePeaks:
    """Peak float operations and bytes read from memory, per second and over all threads; 0:
    unknown.

    `cache` is the size of the last-level cache in bytes.
    """

    flops: float
    bytes: float
    cache: int

    def bound(self, flops: int, moved: int) -> float | None:
        """Least seconds for this much work, or None if no peak is known.

        Data that fits in the last-level cache stays there between calls and costs no memory
        traffic.
        """
        if not self.flops or not self.bytes:
            return None
        moving = moved / self.bytes if moved > self.cache else 0.0
        return max(flops / self.flops, moving)

    def best(self, other: "MachinePeaks") -> "MachinePeaks":
        """The higher of both."""
        return MachinePeaks(max(self.flops, other.flops), max(self.bytes, other.bytes), self.cache)


def meter(dtype: torch.dtype) -> Callable[[], MachinePeaks] | None:
    """A function that measures the peaks for products of `dtype`, or None without a peak for it."""
    operations = _OPERATIONS_OF.get(dtype)
    if operations is None:
        return None
    results = _program()
    return lambda: of_results(results(), operations)


def reading() -> Callable[[], dict[str, float]]:
    """A function that measures read bandwidth in bytes per second from L1, L2, L3 and memory."""
    results = _program()
    return lambda: rates_of_reading(results())


def rates_of_reading(results: list[KernelResult]) -> dict[str, float]:
    """Read bandwidth by place, in bytes per second, from the rows that cpuaccel_bench wrote."""
    reads = [(row.shape.removeprefix(_READ), row) for row in results if row.shape.startswith(_READ)]
    return {place: _GIGA * row.rate for place, row in reads}


def _program() -> Callable[[], list[KernelResult]]:
    """Builds cpuaccel_bench and returns a function that runs its peaks on torch's thread count."""
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


def add_no_peaks(parser: argparse.ArgumentParser, peaks: str) -> None:
    """Adds --no-peaks, which omits the bounds; `peaks` names what is not measured then."""
    parser.add_argument(
        "--no-peaks",
        dest="peaks",
        action="store_false",
        help=f"do not measure {peaks}; omit the bounds",
    )
