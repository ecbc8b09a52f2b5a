"""Times of calls that take turns, round by round: what slows the machine down slows all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext


def medians(
    calls: Mapping[str, Callable[[], object]],
    repeats: Mapping[str, int],
    rounds: int,
    around: Callable[[str], AbstractContextManager[object]] = lambda _: nullcontext(),
) -> dict[str, float]:
    """Return the seconds of one of each of `calls`, the median of `rounds`.

    A round has `repeats` calls of each, by name, inside `around(name)` and behind one that is not
    timed.
    """
    samples: dict[str, list[float]] = {name: [] for name in calls}
    # The first round, which does not count, makes primitives and warms caches.
    for _ in range(rounds + 1):
        for name, call in calls.items():
            with around(name):
                call()
                start = time.perf_counter()
                for _ in range(repeats[name]):
                    call()
                samples[name].append((time.perf_counter() - start) / repeats[name])
    return {name: statistics.median(seconds[1:]) for name, seconds in samples.items()}
