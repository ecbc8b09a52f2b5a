"""Times the columns of a job, and of all models; shared by the model benchmarks and the demo."""

import argparse
import gc
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import torch
from rich.console import Console
from rich.progress import Progress

from benchmarks import _machine, _plot, _plugin
from benchmarks._quantize import quiet
from benchmarks._report import Ratio, Report, Row
from benchmarks._timing import Contender, side_by_side
from benchmarks.models._columns import Column, choose
from benchmarks.models._job import Job


def time_job(
    name: str,
    job: Job,
    columns: list[Column],
    *,
    rounds: int,
    budget: float,
    beside: Mapping[str, Contender] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[Row, list[str]]:
    """Times `job` in all columns; returns a row, and notes on the columns.

    `budget` is the time for the rounds in seconds; preparation is extra. `clock` returns seconds.
    Contenders in `beside` are timed in turns with the columns, but their outputs are not compared.
    The row's extra entries are the providers that ran in one call with cpuaccel, each column's
    signal-to-error ratio against fp32 in dB, and the reason why a peer does not run the model.
    """
    # Models of one class share their code, and Dynamo keeps a limited number of compilations of it.
    torch._dynamo.reset()
    with torch.inference_mode(), quiet():
        contenders, failed = _prepare(job, columns)
        notes = [f"{name}: {column} cannot run it: {why}" for column, why in failed.items()]
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
        samples = side_by_side(timed, rounds=rounds, budget=budget, clock=clock)
    return Row(name, samples, {"calls": providers, "sqnr_db": sqnr, "failed": failed}), notes


def run(
    title: str,
    columns: Sequence[Column],
    ratios: Iterable[Ratio],
    make_job: Callable[[str], Job],
    options: argparse.Namespace,
    *,
    facts: Mapping[str, str] = MappingProxyType({}),
    notes: Iterable[str] = (),
) -> None:
    """Times `options.models` in those of `columns` that the options name and that can run here.

    It prints the report with these `facts` and `notes`, and draws or writes it.
    """
    chosen, remarks = choose(options.engines, columns)
    if options.plot:
        _plot.require()
    if not chosen:
        raise SystemExit("nothing to measure: " + "; ".join(remarks))
    if options.threads:
        torch.set_num_threads(options.threads)
    report = Report(
        title=title,
        facts={**_machine.describe(batch=options.batch), **facts},
        columns=[column.name for column in chosen],
        ratios=list(ratios),
        notes=[*notes, *remarks],
    )
    _time_models(report, chosen, make_job, options)
    report.print(_machine.console())
    if options.plot:
        _plot.write_plot(report, options.plot, base=report.columns[0])


def _time_models(
    report: Report,
    columns: list[Column],
    make_job: Callable[[str], Job],
    options: argparse.Namespace,
) -> None:
    """Adds a row for each of `options.models` to `report`, and updates the JSON file after each."""
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=len(options.models))
        for name in options.models:
            progress.update(task, description=name)
            row, notes = time_job(
                name, make_job(name), columns, rounds=options.rounds, budget=options.budget
            )
            report.rows.append(row)
            report.notes += notes
            gc.collect()
            if options.json:
                report.write_json(options.json)
            progress.advance(task)


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
        exact = first_output(job.model(*job.inputs)).double()
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
