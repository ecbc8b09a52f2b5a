"""Times calls in turns, round by round, so that a slowdown of the machine affects all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

_LEAST_SECONDS = 1e-3
_LEAST_ROUNDS = 3


def medians(
    calls: Mapping[str, Callable[[], object]],
    repeats: Mapping[str, int],
    rounds: int,
    around: Callable[[str], AbstractContextManager[object]] = lambda _: nullcontext(),
) -> dict[str, float]:
    """Return the seconds of one call of each of `calls`, the median of `rounds`.

    A round makes `repeats` calls of each, by name, inside `around(name)`, after one call that is
    not timed.
    """
    samples: dict[str, list[float]] = {name: [] for name in calls}
    # The first round, which does not count, creates primitives and warms caches.
    for _ in range(rounds + 1):
        for name, call in calls.items():
            with around(name):
                call()
                start = time.perf_counter()
                for _ in range(repeats[name]):
                    call()
                samples[name].append((time.perf_counter() - start) / repeats[name])
    return {name: statistics.median(seconds[1:]) for name, seconds in samples.items()}


def within(
    calls: Mapping[str, Callable[[], object]], budget: float, rounds: int = 30
) -> dict[str, list[float]]:
    """Return the seconds of one call of each of `calls`, one figure for each round.

    Each round starts with another call, and repeats each call for about a millisecond. No round
    starts after `budget` seconds, but at least three always run.
    """
    start = time.perf_counter()
    repeats = {}
    for name, call in calls.items():
        call()
        before = time.perf_counter()
        call()
        repeats[name] = max(1, round(_LEAST_SECONDS / max(time.perf_counter() - before, 1e-9)))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for number in range(rounds):
        if number >= _LEAST_ROUNDS and time.perf_counter() - start > budget:
            break
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            before = time.perf_counter()
            for _ in range(repeats[name]):
                calls[name]()
            samples[name].append((time.perf_counter() - before) / repeats[name])
    return samples
