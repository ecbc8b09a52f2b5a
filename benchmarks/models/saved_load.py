"""Times `cpuaccel.optimize` and `cpuaccel.load` of the saved result.

Each runs in its own process; the model and the example inputs are built before the clock starts
(`load` needs no model). `optimize` and `load` are these calls alone, including the torch modules
that they import. `+ run` adds a first run, which packs the weights; `optimize` already contains one
for its validation. `optimize` does not tune and prepares no other sizes. `again` repeats it in the
same process on a copy, without imports. `resnet18-int8` is a convert_fx model.
"""

import argparse
import copy
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress

from benchmarks._arguments import add_json, add_processes, add_threads, make_parser
from benchmarks._quantize import quiet
from benchmarks._report import Ratio, Report, Row
from benchmarks._timing import Sample
from benchmarks.models import _named
from benchmarks.models._compiled import backend_missing
from benchmarks.models._process import (
    Clock,
    add_inside,
    reports_by_clock,
    result_of,
    show,
)

MODELS = ("mobilenet_v2", "resnet18", "mobilenet_v2-int8", "resnet18-int8")
COLUMNS = ("optimize", "load", "load + run", "optimize again", "load + run again")


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.inside:
        print(json.dumps(_INSIDE[options.inside](options.models[0], options.file)))
        return
    if missing := backend_missing():
        raise SystemExit(f"nothing to measure: {missing}")
    ratios = [Ratio("load + run", "optimize"), Ratio("load + run again", "optimize again")]
    reports = reports_by_clock("optimize and load", COLUMNS, ratios, batch=1)
    _measure(reports, options)
    show(reports, options.json)


def _measure(reports: dict[str, Report], options: argparse.Namespace) -> None:
    with (
        Progress(console=Console(stderr=True)) as progress,
        tempfile.TemporaryDirectory() as folder,
    ):
        task = progress.add_task("", total=len(options.models) * options.rounds)
        file = Path(folder) / "model.pt2"
        for name in options.models:
            progress.update(task, description=name)
            runs: list[dict[str, Any]] = []
            for _ in range(options.rounds):
                optimized = _in_a_process("optimize", name, file, options.threads)
                loaded = _in_a_process("load", name, file, options.threads)
                runs.append({**optimized, **loaded})
                progress.advance(task)
            size = file.stat().st_size / 1e6
            for clock, report in reports.items():
                samples = {
                    column: Sample(tuple(run[column][clock] for run in runs)) for column in COLUMNS
                }
                report.rows.append(Row(name, samples, {"runs": runs}))
                report.notes.append(f"{name}: the file has {size:.1f} MB")


def _in_a_process(inside: str, name: str, file: Path, threads: int | None) -> dict[str, Any]:
    module, on = "benchmarks.models.saved_load", {"CPUACCEL": "1"}
    return result_of(module, inside, name, threads, on, "--file", str(file))


# What runs in the process


def _optimize(name: str, file: Path) -> dict[str, Any]:
    import cpuaccel

    with quiet(), torch.no_grad():
        model, x = _named.build(name), _named.inputs(name, 1)
        clock = Clock()
        optimized = cpuaccel.optimize(model, (x,), time_budget=0, sizes_budget=0)
        first = clock.read()
        other = copy.deepcopy(model)
        clock = Clock()
        cpuaccel.optimize(other, (x,), time_budget=0, sizes_budget=0)
        again = clock.read()
        cpuaccel.save(optimized, file)
    return {"optimize": first, "optimize again": again}


def _load(name: str, file: Path) -> dict[str, Any]:
    import cpuaccel

    x = _named.inputs(name, 1)
    clock = Clock()
    loaded = cpuaccel.load(file)
    taken = clock.read()
    loaded(x)
    first = clock.read()
    clock = Clock()
    cpuaccel.load(file)(x)
    return {"load": taken, "load + run": first, "load + run again": clock.read()}


_INSIDE: dict[str, Callable[[str, Path], dict[str, Any]]] = {"optimize": _optimize, "load": _load}


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    _named.add_models(parser, MODELS)
    add_threads(parser)
    add_processes(parser, 3)
    add_json(parser)
    add_inside(parser, _INSIDE)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main()
