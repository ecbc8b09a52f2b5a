"""Times one case with cpuaccel disabled and enabled, alternating."""

import gc
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks import _plugin
from benchmarks._timing import Runner
from benchmarks.ops.never_slower._case import Case

CLOCKS = {"cpu": time.process_time_ns, "wall": time.perf_counter_ns}
_WARMUP = 2
# Each sample warms up with this fraction of its calls: switching cpuaccel leaves caches cold.
_WARMUP_PART = 4
_MIN_ROUNDS = 5
# A time is the smallest of several samples, because other processes can only lengthen them.
_SAMPLES = 4
_MIN_SAMPLE_NS = 3e5
_LONG_NS = 2e6


@dataclass(frozen=True)
class Speed:
    """cpuaccel's speed relative to torch's by one clock: the ratios of all rounds."""

    ratios: tuple[float, ...]
    off_ns: float
    on_ns: float

    @property
    def median(self) -> float:
        """The median ratio; below 1 cpuaccel is slower."""
        return statistics.median(self.ratios)

    @property
    def quartiles(self) -> tuple[float, float]:
        """First and third quartile of the ratios."""
        first, _, third = statistics.quantiles(self.ratios, n=4, method="inclusive")
        return first, third

    def below(self, limit: float) -> bool:
        """Whether cpuaccel is slower than `limit` beyond the spread: in three of four rounds."""
        return self.quartiles[1] < limit


Speeds = dict[str, Speed]
"""Speeds by clock."""


def measure(case: Case, rounds: int, budget: float) -> Speeds:
    """Times `case` in up to `rounds` rounds; no round starts after `budget` seconds, but five run.

    A round times both sides next to each other, and every second round in reverse order. A time is
    the smallest of four samples (two for long calls), after some untimed calls. A sample is the
    mean of as many calls as last 0.3 ms, the same number on both sides. A ratio divides two times
    of the same round, so whatever slows the machine down for a while slows both.
    """
    deadline = time.perf_counter() + budget
    calls: dict[bool, Runner] = {}
    repeats = 1
    for plugin in (False, True):
        with _side(case, plugin):
            calls[plugin] = case.runner(plugin)
            repeats = max(repeats, _repeats(calls[plugin]))
    found: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    with _uncollected():
        for number in range(max(rounds, _MIN_ROUNDS)):
            if number >= _MIN_ROUNDS and time.perf_counter() > deadline:
                break
            for plugin in (False, True) if number % 2 == 0 else (True, False):
                with _side(case, plugin):
                    _times(calls[plugin], 1 + repeats // _WARMUP_PART)
                    found[plugin].append(_least(calls[plugin], repeats))
    return {clock: _speed(clock, found) for clock in CLOCKS}


def _speed(clock: str, found: dict[bool, list[dict[str, float]]]) -> Speed:
    off, on = ([times[clock] for times in found[plugin]] for plugin in (False, True))
    ratios = tuple(a / b for a, b in zip(off, on, strict=True))
    return Speed(ratios, statistics.median(off), statistics.median(on))


@contextmanager
def _side(case: Case, plugin: bool) -> Iterator[None]:
    with _plugin.enabled(plugin), case.engine(plugin):
        yield


@contextmanager
def _uncollected() -> Iterator[None]:
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _repeats(run: Runner) -> int:
    """How many calls last `_MIN_SAMPLE_NS`, found by doubling."""
    for _ in range(_WARMUP):
        run()
    repeats = 1
    while True:
        taken = min(_times(run, repeats)["wall"] for _ in range(2)) * repeats
        if taken >= _MIN_SAMPLE_NS:
            return repeats
        repeats *= 2


def _least(run: Runner, repeats: int) -> dict[str, float]:
    """The smallest time of several samples, by each clock."""
    samples = [_times(run, repeats)]
    count = 2 if samples[0]["wall"] > _LONG_NS else _SAMPLES
    samples += [_times(run, repeats) for _ in range(count - 1)]
    return {clock: min(sample[clock] for sample in samples) for clock in CLOCKS}


def _times(run: Runner, repeats: int) -> dict[str, float]:
    """Nanoseconds of one call over `repeats` calls, by each clock."""
    starts = {name: clock() for name, clock in CLOCKS.items()}
    for _ in range(repeats):
        run()
    # At least 1 ns: the CPU clock may not advance during a short call.
    return {name: max(1, clock() - starts[name]) / repeats for name, clock in CLOCKS.items()}
