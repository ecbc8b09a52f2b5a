"""Times each plan step of a compiled or optimized model beside the machine's peaks."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from cpuaccel import _native
from cpuaccel._arguments import checked_inputs
from cpuaccel._explain.plan_steps import Plan, Step

_SECONDS = 1.0
_LEAST_RUNS = 3
_PAGE = 4096.0


def timed_plans(model: nn.Module, example_inputs: Iterable[Any]) -> tuple[Plan, ...]:
    """Run `model` for about a second and return the plans that its calls ran, slowest first.

    The threads and the machine's peaks are those at the time of this call.

    Raises:
        TypeError: `example_inputs` is not a tuple or list.
    """
    args = checked_inputs("cpuaccel.explain", example_inputs)
    return plans_of(lambda: model(*args))


def plans_of(call: Callable[[], Any]) -> tuple[Plan, ...]:
    """Repeat `call` for about a second, after a first call; return the plans it ran, slowest first.

    The threads and the machine's peaks are those at the time of this call.
    """
    native = _native.load()
    with torch.no_grad():
        call()
        native.time_steps(True)
        try:
            repeat(call)
        finally:
            native.time_steps(False)
    peaks = Peaks(native)
    plans = [_plan(program, peaks) for program in native.step_times()]
    return tuple(sorted(plans, key=lambda plan: -plan.microseconds))


def repeat(call: Callable[[], Any]) -> None:
    """Call it for about a second, and at least three times."""
    start, runs = time.perf_counter(), 0
    while runs < _LEAST_RUNS or time.perf_counter() - start < _SECONDS:
        call()
        runs += 1


class Peaks:
    """The machine's peak rates, measured once for each range of bytes (powers of 4 pages)."""

    def __init__(self, native: Any) -> None:
        self._native = native
        self._measured: dict[float, dict[str, float]] = {}

    def seconds(self, step: Mapping[str, Any]) -> float:
        """Return the least time of a step: its dtype, multiply_adds, bytes_read, bytes_written."""
        footprint = _PAGE
        while footprint < step["bytes_read"] + step["bytes_written"]:
            footprint *= 4
        peaks = self._measured.get(footprint)
        if peaks is None:
            peaks = self._measured[footprint] = self._native.machine_peaks(footprint)
        rate = peaks.get("u8" if step["dtype"] == "s8" else step["dtype"], 0.0)
        computing = step["multiply_adds"] / rate if rate else 0.0
        reading = step["bytes_read"] * peaks["seconds_to_read"]
        return float(max(computing, reading, step["bytes_written"] * peaks["seconds_to_write"]))


def _plan(program: dict[str, Any], peaks: Peaks) -> Plan:
    runs = program["nanoseconds"]
    *of_steps, call = (max(statistics.median(each), 1.0) for each in zip(*runs, strict=True))
    steps = tuple(
        Step(
            kinds=step["kinds"],
            kernel=step["kernel"],
            sizes=step["sizes"],
            dtype=step["dtype"],
            microseconds=nanoseconds / 1000,
            gmacs=step["multiply_adds"] / nanoseconds,
            gigabytes=(step["bytes_read"] + step["bytes_written"]) / nanoseconds,
            of_bound=peaks.seconds(step) * 1e9 / nanoseconds,
            of_time=nanoseconds / call,
            inputs=tuple(step["inputs"]),
            outputs=tuple(step["outputs"]),
        )
        for step, nanoseconds in zip(program["steps"], of_steps, strict=True)
    )
    between = statistics.median(run[-1] - sum(run[:-1]) for run in runs)
    digest = program["name"].rpartition(" ")[2]
    return Plan(digest[:8], call / 1000, between / 1000, len(runs), steps)
