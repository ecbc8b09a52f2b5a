"""Times calls in turns, round by round, so that a slowdown of the machine affects all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

_LEAST_SECONDS = 1e-3
_LEAST_ROUNDS = 3
_CLEAR = 1.5
"""The ratio of times that one round shows, unless something else disturbs it."""
_LONG, _CLEAR_OF_LONG = 0.1, 1.1
"""Seconds of a long call, and the ratio that one round of them shows: disturbances average out."""


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

    Each of `calls` has run before. Each round starts with another call, and repeats each call for
    about a millisecond. No round starts after `budget` seconds, but three always run; or one, if
    that shows clearly that the first of `calls` is the fastest.
    """
    start = time.perf_counter()
    samples: dict[str, list[float]] = {name: [] for name in calls}
    repeats = {}
    for name, call in calls.items():
        seconds = _seconds_of(call)
        if seconds < _LONG:  # its data may have left the CPU's caches
            seconds = _seconds_of(call)
        repeats[name] = max(1, round(_LEAST_SECONDS / max(seconds, 1e-9)))
        samples[name].append(seconds)
    if any(count > 1 for count in repeats.values()):
        samples = {name: [] for name in calls}  # a single call was too short
    names = list(calls)
    for number in range(len(samples[names[0]]), rounds):
        least = 1 if number and _is_first_faster(samples) else _LEAST_ROUNDS
        if number >= least and time.perf_counter() - start > budget:
            break
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            samples[name].append(_seconds_of(calls[name], repeats[name]))
    return samples


def _seconds_of(call: Callable[[], object], repeats: int = 1) -> float:
    before = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - before) / repeats


def _is_first_faster(samples: Mapping[str, list[float]]) -> bool:
    """Say whether the first call was the fastest in all rounds, by more than a disturbance."""
    first, *others = samples.values()
    clear = _CLEAR_OF_LONG if min(first) >= _LONG else _CLEAR
    return all(max(first) * clear < min(other) for other in others)
