"""Times a model from a file on random inputs: the call, its plans, and torch's ops."""

from __future__ import annotations

import statistics
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from cpuaccel._explain.plan_steps import Plan
from cpuaccel._explain.step_timing import plans_of
from cpuaccel.compile.capture.call_signature import Call
from cpuaccel.compile.package.load import Loaded


@dataclass(frozen=True)
class Measured:
    """Median times of the calls of about a second."""

    microseconds: float
    """Time of a call."""
    plans: tuple[Plan, ...]
    """Slowest first."""
    ops: tuple[float, ...]
    """Microseconds of each op of the graph, including regions; empty if they cannot be timed."""


def measure(loaded: Loaded) -> Measured:
    """Run `loaded` for about a second on random arguments of its call.

    Raises:
        RuntimeError: the model does not run on them.
    """
    call = Call.from_facts(loaded.facts["call"])
    args, kwargs = call.random()
    autocast: AbstractContextManager[Any] = nullcontext()
    if call.autocast is not None:
        autocast = torch.autocast("cpu", call.autocast)
    times: list[int] = []

    def timed_call() -> None:
        start = time.perf_counter_ns()
        loaded(*args, **kwargs)
        times.append(time.perf_counter_ns() - start)

    try:
        with autocast, loaded.timed() as runs:
            plans = plans_of(timed_call)
    except Exception as error:
        raise RuntimeError(f"the model does not run on random inputs: {error}") from error
    # The first call does not count: it builds what the others use.
    ops = [statistics.median(each) / 1000 for each in zip(*runs[1:], strict=True)]
    return Measured(statistics.median(times[1:]) / 1000, plans, tuple(ops))
