"""Assigns CPU cores to workers: disjoint sets of the cores that this process may use."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def partition(cores: Sequence[int], workers: int, threads: int) -> list[tuple[int, ...]]:
    """`threads` cores for each of `workers`, no core twice, in the order of `cores`.

    Raises:
        ValueError: there are not that many cores.
    """
    if workers < 1 or threads < 1:
        raise ValueError(
            f"workers and threads: expected 1 or more of each, got {workers} and {threads}"
        )
    if workers * threads > len(cores):
        raise ValueError(
            f"workers times threads: expected at most {len(cores)}, the cores that this process"
            f" may use, got {workers} x {threads}"
        )
    return [tuple(cores[i * threads : (i + 1) * threads]) for i in range(workers)]


def physical_first(cores: Sequence[int], siblings: Mapping[int, str]) -> list[int]:
    """Sorts `cores`; those that share a physical core with an earlier one come last.

    `siblings` maps each core to a text that is the same for all threads of one physical core.
    """
    seen: set[str] = set()
    first, later = [], []
    for core in sorted(cores):
        name = siblings.get(core, str(core))
        (later if name in seen else first).append(core)
        seen.add(name)
    return first + later


def usable() -> list[int]:
    """The cores that this process may use, one thread of each physical core first."""
    cores = sorted(os.sched_getaffinity(0))
    siblings = {}
    for core in cores:
        path = Path(_SIBLINGS.format(core))
        if path.is_file():
            siblings[core] = path.read_text().strip()
    return physical_first(cores, siblings)
