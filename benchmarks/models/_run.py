"""Times the columns of one job; shared by the benchmark and the demo."""

import torch

from benchmarks import _plugin
from benchmarks._quantize import quiet
from benchmarks._report import Row
from benchmarks._timing import side_by_side
from benchmarks.models._columns import Column, Job


def time_job(
    name: str, job: Job, columns: list[Column], *, rounds: int, budget: float
) -> tuple[Row, list[str]]:
    """A row of times for `job`, and notes on what a reader of them must know.

    `budget` is the time to spend on the rounds, seconds; preparing comes on top.
    """
    with torch.inference_mode(), quiet():
        contenders = {column.name: column.contender(job) for column in columns}
        providers = {}
        for column in columns:
            if column.plugin:
                contender = contenders[column.name]
                with contender.around():
                    providers[column.name] = _plugin.calls_of(contender.run)
        notes = [
            f"{name}: no layer of column {column} ran on cpuaccel"
            for column, calls in providers.items()
            if not _plugin.engine_ran(calls)
        ]
        samples = side_by_side(contenders, rounds=rounds, budget=budget)
    return Row(name, samples, {"calls": providers}), notes
