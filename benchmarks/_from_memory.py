"""Calls whose weights come from memory, as in a model, and the read bandwidth that bounds them."""

import itertools
from collections.abc import Callable

from benchmarks import _machine
from benchmarks._timing import Contender, Runner, side_by_side


def in_turn(make: Callable[[], Runner], held: int, most: int | None = None) -> Runner:
    """Return a function that runs copies in turn, whose data exceed the caches twice.

    `make` returns one copy, which holds `held` bytes; there are at most `most` copies.
    """
    count = max(1, -(-2 * _machine.last_cache() // held))
    copies = [make() for _ in range(count if most is None else min(count, most))]
    runs = itertools.cycle(copies)
    return lambda: next(runs)()


def read_bandwidth(rounds: int = 9, budget: float = 1.0) -> float:
    """Measure the bytes that torch's threads read from memory a second."""
    from cpuaccel import _native

    size = 4 * _machine.last_cache()
    read = Contender(_native.load().reading(size))
    samples = side_by_side({"read": read}, rounds=rounds, budget=budget)
    return size / samples["read"].median
