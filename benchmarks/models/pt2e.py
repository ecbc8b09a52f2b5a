"""Times PT2E int8 models of torchvision in eager mode, beside the same models of convert_fx.

The columns, in turns, batch 1, one thread, in milliseconds of the thread's CPU time, so that other
processes disturb little:

- fp32: the model itself, on cpuaccel
- torch: what convert_pt2e returned (X86InductorQuantizer), op by op, without cpuaccel
- fx: the model of convert_fx, by cpuaccel.optimize
- x86inductor: what convert_pt2e returned (X86InductorQuantizer), called in eager mode
- x86quantizer: the same, made with cpuaccel.quant.pt2e.X86Quantizer

Then come the seconds of the first call, which makes the plan, the number of ops that the plans run
on integers, and the cosine between the scores and those of fp32 for fx and both quantizers.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from benchmarks import _plugin
from benchmarks._arguments import add_checked_names, make_parser
from benchmarks._quantize import convert, quiet
from benchmarks._torchvision import MODELS, build, images, input_size
from benchmarks.models import _pt2e
from benchmarks.models._job import Job

_ROUNDS = 7
_SECONDS = 0.2
"""Of CPU time, for each round of a column."""

_CALIBRATION_SEEDS = (101, 102)
_COLUMNS = ("fp32", "torch", "fx", "x86inductor", "x86quantizer")
_FACTS = ("over torch", "over fx", "first call", "integer ops", "cosine")


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints a table."""
    options = _parser().parse_args(arguments)
    if missing := _pt2e.missing() or _plugin.optimize_missing():
        raise SystemExit(f"nothing to measure: {missing}")
    torch.set_num_threads(1)
    table = Table("model", *_COLUMNS, *_FACTS)
    for name in options.models:
        with _plugin.enabled(True), torch.no_grad(), quiet():
            row = list(_row(name))
        table.add_row(name, *row)
        Console(stderr=True, width=160).print(name, *row)
    Console(width=160).print(table)


def _row(name: str) -> Iterator[str]:
    calibration = [images(name, 1, seed=seed) for seed in _CALIBRATION_SEEDS]
    job = Job(build(name), calibration, images(name, 1))
    x = job.x
    by_torchao = _pt2e.converted(job, dynamic=False, for_cpuaccel=False)
    by_cpuaccel = _pt2e.converted(job, dynamic=False, for_cpuaccel=True)
    fx = _plugin.optimize(convert(job.calibrated, "x86", plugin=True), x)
    first = _seconds(lambda: by_torchao(x))
    by_cpuaccel(x)

    def without() -> Tensor:
        with _plugin.enabled(False):
            scores: Tensor = by_torchao(x)
            return scores

    runs: dict[str, Callable[[], Tensor]] = {
        "fp32": lambda: job.model(x),
        "torch": without,
        "fx": lambda: fx(x),
        "x86inductor": lambda: by_torchao(x),
        "x86quantizer": lambda: by_cpuaccel(x),
    }
    scores = {column: run().flatten() for column, run in runs.items()}
    times: dict[str, list[float]] = {column: [] for column in runs}
    for _ in range(_ROUNDS):
        for column, run in runs.items():
            times[column].append(_milliseconds(run))
    medians = {column: statistics.median(each) for column, each in times.items()}
    yield from (f"{medians[column]:.2f}" for column in _COLUMNS)
    best = min(medians["x86inductor"], medians["x86quantizer"])
    yield f"{medians['torch'] / best:.1f}"
    yield f"{medians['fx'] / best:.2f}"
    yield f"{first:.1f}"
    yield f"{_integer_ops(by_torchao, x)}, {_integer_ops(by_cpuaccel, x)}"
    yield ", ".join(
        f"{float(torch.cosine_similarity(scores[column], scores['fp32'], 0)):.3f}"
        for column in ("fx", "x86inductor", "x86quantizer")
    )


def _seconds(run: Callable[[], object]) -> float:
    began = time.thread_time()
    run()
    return time.thread_time() - began


def _milliseconds(run: Callable[[], object]) -> float:
    """CPU milliseconds of a call, the mean over calls that fill the time of a round."""
    calls, seconds = 0, 0.0
    while seconds < _SECONDS:
        seconds += _seconds(run)
        calls += 1
    return seconds / calls * 1000


def _integer_ops(model: nn.Module, x: Tensor) -> int:
    import cpuaccel

    steps = (step for plan in cpuaccel.explain(model, (x,)).plans for step in plan.steps)
    kinds = (kind for step in steps for kind in step.kinds.split("+"))
    return sum(kind.startswith("q_") for kind in kinds)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    names = [model.name for model in MODELS]
    add_checked_names(
        parser,
        "--models",
        input_size,
        default=names,
        help=f"names from {','.join(names)} (default: all)",
    )
    return parser


if __name__ == "__main__":
    main()
