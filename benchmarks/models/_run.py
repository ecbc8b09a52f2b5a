"""Times the columns of one job; shared by the model benchmarks and the demo."""

import math
from collections.abc import Mapping

import torch

from benchmarks import _plugin
from benchmarks._quantize import quiet
from benchmarks._report import Row
from benchmarks._timing import Contender, side_by_side
from benchmarks.models._columns import Column
from benchmarks.models._job import Job


def time_job(
    name: str,
    job: Job,
    columns: list[Column],
    *,
    rounds: int,
    budget: float,
    beside: Mapping[str, Contender] | None = None,
) -> tuple[Row, list[str]]:
    """Times `job` in all columns; returns a row, and notes on the columns.

    `budget` is the time for the rounds in seconds; preparation is extra. Contenders in `beside` are
    timed in turns with the columns, but their outputs are not compared. The row's extra entries are
    the providers that ran in one call with cpuaccel, each column's signal-to-error ratio against
    fp32 in dB, and the reason why a peer does not run the model.
    """
    # Models of one class share their code, and Dynamo keeps a limited number of compilations of it.
    torch._dynamo.reset()
    with torch.inference_mode(), quiet():
        contenders, failed = _prepare(job, columns)
        notes = [f"{name}: {column} does not take it: {why}" for column, why in failed.items()]
        providers = {}
        for column in columns:
            if column.plugin and column.name in contenders:
                contender = contenders[column.name]
                with contender.around():
                    providers[column.name] = _plugin.calls_of(contender.run)
        notes += [
            f"{name}: no layer of column {column} ran on cpuaccel"
            for column, calls in providers.items()
            if not _plugin.engine_ran(calls)
        ]
        sqnr = _sqnr(job, contenders)
        timed = {**contenders, **(beside or {})}
        samples = side_by_side(timed, rounds=rounds, budget=budget)
    return Row(name, samples, {"calls": providers, "sqnr_db": sqnr, "failed": failed}), notes


def _prepare(job: Job, columns: list[Column]) -> tuple[dict[str, Contender], dict[str, str]]:
    """The contenders by column, and the reason for each peer that does not run the model."""
    contenders: dict[str, Contender] = {}
    failed: dict[str, str] = {}
    for column in columns:
        try:
            contenders[column.name] = column.contender(job)
        except Exception as error:
            if not column.peer:
                raise
            failed[column.name] = (str(error).strip() or type(error).__name__).splitlines()[0]
    return contenders, failed


def _sqnr(job: Job, contenders: dict[str, Contender]) -> dict[str, float]:
    """The signal-to-error ratio of each contender's scores against fp32, in dB."""
    with _plugin.enabled(False):
        exact = job.model(job.x).double()
    ratios = {}
    for name, contender in contenders.items():
        with contender.around():
            error = (first_output(contender.run()).double() - exact).square().sum()
        if error > 0:
            ratios[name] = 10 * math.log10(float(exact.square().sum() / error))
    return ratios


def first_output(result: object) -> torch.Tensor:
    """The scores in a runner's result: a tensor, or a list or mapping of arrays."""
    if isinstance(result, Mapping):
        result = list(result.values())
    if isinstance(result, list | tuple):
        result = result[0]
    return torch.as_tensor(result)
