"""Ways of calling an op from two threads at once, after a fork, and with little address space."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from calls._row import Forms, Sample
from calls._way import Way, eager

_TIMES = 3
_DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.quint8)


def _two_threads(forms: Forms, sample: Sample) -> Any:
    """Two threads make the same call at the same time, repeatedly; returns all results."""
    together = threading.Barrier(2)

    def work(_: int) -> list[Any]:
        together.wait()
        return [eager(forms, sample) for _ in range(_TIMES)]

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(work, range(2)))


def _each_time(forms: Forms, sample: Sample) -> Any:
    return [eager(forms, sample) for _ in range(2 * _TIMES)]


WAYS = (
    Way("two_threads", _two_threads, dtypes=_DTYPES, exact=_each_time),
    Way("fork", eager, dtypes=_DTYPES, child="fork"),
    Way("address_limit", eager, dtypes=_DTYPES, child="address_limit"),
)
