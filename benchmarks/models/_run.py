"""Times the columns of one job; shared by the benchmark and the demo."""

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
    """A row of times for `job`, and notes on what a reader of them must know.

    `budget` is the time to spend on the rounds, seconds; preparing comes on top. What is `beside`
    the columns is timed in turns with them, and has no results. The row's extra figures are what
    the plugin's providers ran in one call, the signal over the error of each column against fp32,
    dB, and why each peer that does not take the model does not.
    """
    # Models of one class share their code, of which Dynamo keeps some compiled forms only.
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
    """The contenders by column, and why each peer that does not take the model does not."""
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
    """How well each contender keeps to fp32: signal over error of the scores, dB."""
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
    """The scores in what a runner returned: a tensor, or a list or mapping of arrays."""
    if isinstance(result, Mapping):
        result = list(result.values())
    if isinstance(result, list | tuple):
        result = result[0]
    return torch.as_tensor(result)
