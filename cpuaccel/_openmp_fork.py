"""Ends libgomp's threads before a fork, so that the child starts its own and does not hang.

libgomp keeps the threads of a parallel region for the next one. The child of a fork has none of
them, but libgomp still waits for them. So every operator on several threads hangs in the child if
its parent ran one before, also with torch alone. `omp_pause_resource_all` ends the threads of the
calling thread; the next parallel region starts them again, in the parent and in the child.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

_SOFT = 1  # omp_pause_soft: settings such as the number of threads stay

_is_on = False
_is_registered = False


def install() -> None:
    """Register with os.fork, once. Python has no way to unregister."""
    global _is_on, _is_registered
    _is_on = True
    if not _is_registered and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before_fork)
        _is_registered = True


def uninstall() -> None:
    """Leave forks as they are in torch."""
    global _is_on
    _is_on = False


def _before_fork() -> None:
    if not _is_on:
        return
    for pause in _pauses():
        pause(_SOFT)  # fails in a parallel region, where nothing can be done


@cache
def _pauses() -> list[Any]:
    """Return omp_pause_resource_all of each loaded libgomp."""
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split(maxsplit=5)[-1].strip() for line in maps if "libgomp" in line}
        libraries = [ctypes.CDLL(path) for path in sorted(paths)]
        return [library.omp_pause_resource_all for library in libraries]
    except (OSError, AttributeError):  # another system, or a libgomp before OpenMP 5.0
        return []
