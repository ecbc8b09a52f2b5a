"""Times of a plan's steps on simulated cores: what is serial, and the shares of its loops."""

import io
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from benchmarks.simulation.cores import COUNTED_US, Cost, Simulation


@dataclass(frozen=True)
class StepTime:
    """A step of a plan, or what a call does outside of its steps; times in microseconds."""

    kinds: str
    kernel: str
    sizes: str
    regions: int
    """Parallel loops."""
    serial: float
    """What runs outside of loops."""
    longest: float
    """The longest share of each loop."""
    mean: float
    """The mean share of each loop."""

    def microseconds(self, barrier: float) -> float:
        """The predicted time, with a barrier of so many microseconds after each loop."""
        return self.serial + self.longest + self.regions * barrier


@dataclass(frozen=True)
class Call:
    """A call of a model."""

    steps: list[StepTime]
    outside: StepTime
    weight_bytes: int
    unsupported: int

    @classmethod
    def of(cls, data: dict[str, Any]) -> "Call":
        """From `dataclasses.asdict`."""
        steps = [StepTime(**step) for step in data["steps"]]
        return cls(**{**data, "steps": steps, "outside": StepTime(**data["outside"])})

    def all_steps(self) -> list[StepTime]:
        """The steps, and what is outside of them."""
        return [*self.steps, self.outside]

    def microseconds(self, barrier: float) -> float:
        """The predicted time of the call."""
        return sum(step.microseconds(barrier) for step in self.all_steps())

    @property
    def regions(self) -> int:
        """Parallel loops of the call."""
        return sum(step.regions for step in self.all_steps())

    @property
    def serial(self) -> float:
        """What runs outside of loops."""
        return sum(step.serial for step in self.all_steps())


def measured_call(
    simulation: Simulation, run: Callable[[], object], threads: int, rounds: int, weights: int
) -> Call:
    """Measures calls of `run`, which has plans, on the simulated cores.

    The shares of each thread are recorded alone, in `rounds` calls, with the caches of its core.
    Then the steps are timed on the first thread, which also runs what is outside of loops, with
    each loop at the cost of its longest share, of its mean share, and of COUNTED_US.
    """
    simulation.call(Cost.MEASURED)
    for _ in range(2):
        run()
    for only in range(threads):
        for number in range(rounds + 1):
            # The first call fills the caches.
            simulation.call(Cost.MEASURED, noting=number > 0, only=only)
            run()
    times = {
        cost: _times(simulation, run, rounds + 1, cost)
        for cost in (Cost.COUNTED, Cost.LONGEST, Cost.MEAN)
    }
    simulation.call(Cost.MEASURED)
    names = times[Cost.COUNTED][0]
    columns = zip(*(times[cost][1] for cost in times), strict=True)
    steps = [_step(name, *column) for name, column in zip(names, columns, strict=True)]
    return Call(steps[:-1], steps[-1], weights, simulation.unsupported())


def _step(name: tuple[str, str, str], counted: float, longest: float, mean: float) -> StepTime:
    regions = int(counted // COUNTED_US)
    serial = counted - regions * COUNTED_US if regions else min(counted, longest, mean)
    return StepTime(*name, regions, serial, max(longest - serial, 0), max(mean - serial, 0))


def _times(
    simulation: Simulation, run: Callable[[], object], rounds: int, cost: Cost
) -> tuple[list[tuple[str, str, str]], list[float]]:
    """Names and least microseconds of the steps, and of the rest of a call as the last one.

    The fastest of several calls is the one that other processes disturb least.
    """
    from cpuaccel import _native

    native = _native.load()
    native.time_steps(True)
    calls = []
    try:
        for _ in range(rounds):
            simulation.call(cost, only=0)
            began = time.perf_counter()
            run()
            calls.append(1e6 * (time.perf_counter() - began))
    finally:
        native.time_steps(False)
    names: list[tuple[str, str, str]] = []
    taken: list[float] = []
    in_steps = [0.0] * rounds
    for program in native.step_times():
        runs = [nanoseconds[:-1] for nanoseconds in program["nanoseconds"]]
        names += [(step["kinds"], step["kernel"], step["sizes"]) for step in program["steps"]]
        taken += [min(each) / 1e3 for each in zip(*runs, strict=True)]
        in_steps = [
            sum_ + sum(part) / 1e3
            for sum_, part in zip(in_steps, _by_call(runs, rounds), strict=True)
        ]
    rest = min(call - steps for call, steps in zip(calls, in_steps, strict=True))
    return [*names, ("outside of steps", "", "")], [*taken, max(rest, 0.0)]


def _by_call(runs: Sequence[Sequence[int]], rounds: int) -> list[list[int]]:
    """The times of all runs of a plan in each call; a plan may run several times in a call."""
    each = len(runs) // rounds
    return [
        [time for run in runs[i * each : (i + 1) * each] for time in run] for i in range(rounds)
    ]


def weight_bytes(model: nn.Module) -> int:
    """Bytes of the model's weights, packed or not, as torch.save writes them."""
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    return file.tell()
