"""`python -m cpuaccel tune`: times matrix products by each library and writes this machine's table.

The libraries take turns in one process, round by round, so that anything that slows the machine
down slows down all of them. A figure is the median of its rounds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date

import torch

from cpuaccel import _native, config, matmul
from cpuaccel._interleaved_timing import medians
from cpuaccel.matmul import MatmulRow

_CANDIDATES = ("cpuaccel", "onednn", "intree")
_LEAST_GAIN = 1.03
"""The least gain over torch's kernel that is worth a row; less is noise."""

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Bucket:
    """A row of the table before it is measured: its limits (0: none), and M, K, N to measure."""

    max_M: int
    max_work: int
    shapes: tuple[Shape, ...]


_WEIGHTS = ((768, 768), (768, 3072), (3072, 768), (2048, 2048))


def _linear(M: int) -> tuple[Shape, ...]:
    return tuple((M, K, N) for K, N in _WEIGHTS)


BUCKETS: tuple[Bucket, ...] = (
    Bucket(0, 2**12, ((4, 4, 4), (8, 8, 8), (1, 64, 64))),
    Bucket(0, 2**17, ((16, 32, 32), (32, 64, 64), (1, 256, 256), (64, 64, 16))),
    Bucket(1, 0, _linear(1)),
    Bucket(4, 0, _linear(2) + _linear(4)),
    Bucket(16, 0, _linear(8) + _linear(16)),
    Bucket(64, 0, _linear(32) + _linear(64)),
    Bucket(256, 0, (*_linear(128), (128, 64, 128), (196, 1024, 256))),
    Bucket(0, 0, ((1024, 768, 768), (1024, 1024, 1024), (3136, 64, 64), (784, 512, 128))),
)
"""Small products come first (the cost of a call), then rows, in which libraries differ most."""


@dataclass(frozen=True)
class Measured:
    """The result of a bucket: the provider, and its least and mean gain over torch."""

    bucket: Bucket
    provider: str
    least: float
    mean: float


def tune(
    dtypes: Sequence[str], rounds: int, report: Callable[[str, Measured], None]
) -> list[MatmulRow]:
    """Measure every bucket for each of `dtypes` and return the rows for this machine.

    `report` is called with the dtype and each bucket's result as soon as it is measured.

    Raises:
        RuntimeError: cpuaccel cannot run here.
    """
    _native.load()
    vendor, isa = matmul.machine()
    where = f"tune, {date.today()}, {_thread_text()}"
    rows = []
    for dtype in dtypes:
        for bucket in BUCKETS:
            found = _measure(bucket, getattr(torch, dtype), rounds)
            report(dtype, found)
            limits = (bucket.max_M, bucket.max_work)
            rows.append(
                MatmulRow(vendor, isa, dtype, *limits, found.provider, f"{found.mean:.2f}", where)
            )
    return rows


def _measure(bucket: Bucket, dtype: torch.dtype, rounds: int) -> Measured:
    ratios: dict[str, list[float]] = {name: [] for name in _CANDIDATES}
    for threads in _thread_counts():
        with _threads(threads):
            for shape in bucket.shapes:
                times = _times(shape, dtype, rounds)
                for name, seconds in times.items():
                    ratios[name].append(times["intree"] / seconds)
    best = Measured(bucket, "intree", 1.0, 1.0)
    for name in _CANDIDATES[:-1]:
        mean = statistics.geometric_mean(ratios[name])
        # Not slower for any shape, as far as two medians can tell.
        if min(ratios[name]) > 0.95 and mean > max(best.mean, _LEAST_GAIN):
            best = Measured(bucket, name, min(ratios[name]), mean)
    return best


def _times(shape: Shape, dtype: torch.dtype, rounds: int) -> dict[str, float]:
    M, K, N = shape
    src = torch.randn(M, K).to(dtype)
    weights = torch.randn(N, K).to(dtype).t()
    repeats = max(1, math.ceil(2e-3 * 2e10 / (2 * M * K * N)))
    repeats = min(repeats, 2000)
    with torch.no_grad():
        return medians(
            dict.fromkeys(_CANDIDATES, lambda: torch.mm(src, weights)),
            dict.fromkeys(_CANDIDATES, repeats),
            rounds,
            around=_provider,
        )


@contextmanager
def _provider(name: str) -> Iterator[None]:
    before = config.get("matmul_provider")
    config.set("matmul_provider", name)
    try:
        yield
    finally:
        config.set("matmul_provider", before)


def _thread_counts() -> tuple[int, ...]:
    most = torch.get_num_threads()
    return (1,) if most == 1 else (1, most)


def _thread_text() -> str:
    return " and ".join(str(n) for n in _thread_counts()) + " threads"


@contextmanager
def _threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
