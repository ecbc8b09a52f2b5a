"""Times alternatives in one process, in interleaved rounds."""

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

Runner = Callable[[], object]
Around = Callable[[], AbstractContextManager[Any]]

_MIN_ROUNDS = 3
_LONG = 0.5  # seconds of a call that has warmed up what it runs on
_SETTLE_STEP = 5e-3
_SETTLE_LIMIT = 0.5
_QUIET_STEPS = 2
_ASLEEP = 0.1


@dataclass(frozen=True)
class Contender:
    """An alternative to time: `run`, called inside the context `around()`, whose entry is not
    timed.
    """

    run: Runner
    around: Around = nullcontext


@dataclass(frozen=True)
class Sample:
    """The times of one contender in seconds per call, one for each round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median, seconds."""
        return statistics.median(self.seconds)

    @property
    def min(self) -> float:
        """Fastest round, seconds."""
        return min(self.seconds)

    @property
    def max(self) -> float:
        """Slowest round, seconds."""
        return max(self.seconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """First and third quartile, seconds; both the median when there is one round."""
        if len(self.seconds) < 2:
            return self.median, self.median
        first, _, third = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return first, third

    @property
    def spread(self) -> float:
        """The interquartile range divided by the median: 0.02 means a quiet machine."""
        first, third = self.quartiles
        return (third - first) / self.median

    def to_dict(self) -> dict[str, float | int]:
        """The statistics for JSON, times in milliseconds."""
        first, third = self.quartiles
        return {
            "median_ms": self.median * 1e3,
            "min_ms": self.min * 1e3,
            "max_ms": self.max * 1e3,
            "q1_ms": first * 1e3,
            "q3_ms": third * 1e3,
            "rounds": len(self.seconds),
        }


def side_by_side(
    contenders: Mapping[str, Contender],
    *,
    rounds: int = 20,
    warmup: int = 3,
    budget: float = 20.0,
    min_sample: float = 2e-3,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Sample]:
    """Times `contenders` against each other and returns their samples under the same keys.

    Each round times every contender in turn, and each round starts with another one. A machine that
    slows down for a while therefore slows all of them. Each time is the mean of as many calls as
    last `min_sample` seconds, after one untimed call that brings the contender's own data back into
    the caches. After `budget` seconds no further round starts, but at least three rounds run, or
    `rounds` if that is fewer. `clock` returns seconds; with time.process_time, what other
    processes do does not count.
    """
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, got {rounds}")
    repeats = {
        name: _repeats(contender, warmup, min_sample) for name, contender in contenders.items()
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    order = list(contenders)
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for number in rounds_within(rounds, budget):
            for name in _rotated(order, number):
                contender = contenders[name]
                with contender.around():
                    contender.run()
                    times[name].append(_time(contender.run, repeats[name], clock))
    finally:
        if collecting:
            gc.enable()
    return {name: Sample(tuple(seconds)) for name, seconds in times.items()}


def rounds_within(rounds: int, budget: float) -> Iterator[int]:
    """Numbers rounds; after `budget` seconds and three rounds, there are no more."""
    deadline = time.perf_counter() + budget
    for number in range(rounds):
        if number >= _MIN_ROUNDS and time.perf_counter() > deadline:
            return
        yield number


def settle() -> None:
    """Waits until this process has been idle for two steps in a row, at most half a second."""
    deadline = time.perf_counter() + _SETTLE_LIMIT
    quiet_steps = 0
    while quiet_steps < _QUIET_STEPS and time.perf_counter() < deadline:
        before = time.process_time()
        time.sleep(_SETTLE_STEP)
        asleep = time.process_time() - before < _ASLEEP * _SETTLE_STEP
        quiet_steps = quiet_steps + 1 if asleep else 0


def _repeats(contender: Contender, warmup: int, min_sample: float) -> int:
    """Warms up and returns how many calls last `min_sample` seconds."""
    with contender.around():
        for _ in range(warmup):
            if _time(contender.run, 1) > _LONG:
                break
        one = _time(contender.run, 1)
    return max(1, round(min_sample / max(one, 1e-9)))


def _rotated(names: list[str], by: int) -> list[str]:
    by %= max(1, len(names))
    return names[by:] + names[:by]


def _time(run: Runner, repeats: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Mean seconds of one call over `repeats` calls."""
    start = clock()
    for _ in range(repeats):
        run()
    return (clock() - start) / repeats
