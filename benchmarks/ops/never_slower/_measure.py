"""Times of one case with the plugin off and on, in turns."""

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
# Of a sample, untimed after each switch of the plugin, which leaves caches cold.
_WARMUP_PART = 4
_MIN_ROUNDS = 5
# A figure is the least of some samples: other processes only ever add to one.
_SAMPLES = 4
_MIN_SAMPLE_NS = 3e5
_LONG_NS = 2e6


@dataclass(frozen=True)
class Speed:
    """How many times as fast as torch the plugin is, by one clock: the ratios of all rounds."""

    ratios: tuple[float, ...]
    off_ns: float
    on_ns: float

    @property
    def median(self) -> float:
        """Below 1 the plugin is slower."""
        return statistics.median(self.ratios)

    @property
    def quartiles(self) -> tuple[float, float]:
        """First and third quartile of the ratios."""
        first, _, third = statistics.quantiles(self.ratios, n=4, method="inclusive")
        return first, third

    def below(self, limit: float) -> bool:
        """Whether the plugin is slower beyond the spread: in three of four rounds."""
        return self.quartiles[1] < limit


Speeds = dict[str, Speed]
"""By clock."""


def measure(case: Case, rounds: int, budget: float) -> Speeds:
    """Times `case` in up to `rounds` rounds, of which at least five run and none starts after
    `budget` seconds.

    A round times both sides next to each other, and every other one in the other order. A figure
    is the least of four samples, or two of long calls, after some calls that are not timed; a
    sample is the mean of as many calls as last 0.3 ms, the same number on both sides. A ratio is
    that of two figures of one round, so that what slows the machine down for a while slows both.
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
    """How many calls last `_MIN_SAMPLE_NS`; more are tried until they do."""
    for _ in range(_WARMUP):
        run()
    repeats = 1
    while True:
        taken = min(_times(run, repeats)["wall"] for _ in range(2)) * repeats
        if taken >= _MIN_SAMPLE_NS:
            return repeats
        repeats *= 2


def _least(run: Runner, repeats: int) -> dict[str, float]:
    """The least of some samples, by each clock."""
    samples = [_times(run, repeats)]
    count = 2 if samples[0]["wall"] > _LONG_NS else _SAMPLES
    samples += [_times(run, repeats) for _ in range(count - 1)]
    return {clock: min(sample[clock] for sample in samples) for clock in CLOCKS}


def _times(run: Runner, repeats: int) -> dict[str, float]:
    """Nanoseconds of one of `repeats` calls, by each clock."""
    starts = {name: clock() for name, clock in CLOCKS.items()}
    for _ in range(repeats):
        run()
    # At least one: a clock of the CPU may stand still for a short call.
    return {name: max(1, clock() - starts[name]) / repeats for name, clock in CLOCKS.items()}
