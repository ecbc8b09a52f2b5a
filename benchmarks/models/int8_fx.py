"""int8 torchvision models, engines side by side: torch's, cpuaccel, and other runtimes.

torch's engines and cpuaccel get the same integers: one calibration under x86's default qconfig
mapping, then one convert_fx per engine. Peers, if installed
(`pip install -r requirements/peers.txt`), quantize the same fp32 model themselves on the same
images. Run as `python -m benchmarks.models.int8_fx` from a checkout's root.
"""

import argparse
import gc
import sys
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks import _machine, _plot
from benchmarks._arguments import add_rounds, names, positive
from benchmarks._report import Report
from benchmarks._torchvision import MODELS, build, images, input_size
from benchmarks.models._columns import COLUMNS, RATIOS, Column, choose
from benchmarks.models._job import Job
from benchmarks.models._run import time_job

_SAME = "int8 columns of torch hold the same integers: one calibration, x86 qconfig mapping"
_CALIBRATION_SEEDS = (101, 102)
_CALIBRATION_BATCH = 2


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        for name in options.models:
            input_size(name)
        columns, notes = choose(options.engines)
    except ValueError as error:
        parser.error(str(error))
    if options.plot:
        _plot.require()
    if not columns:
        raise SystemExit("nothing to measure: " + "; ".join(notes))
    if options.threads:
        torch.set_num_threads(options.threads)
    report = Report(
        title="int8 models, median latency",
        facts=_machine.describe(batch=options.batch),
        columns=[column.name for column in columns],
        ratios=list(RATIOS),
        notes=[_SAME, *notes],
    )
    _measure(report, columns, options)
    report.print(_machine.console())
    if options.plot:
        _plot.write_plot(report, options.plot, base=report.columns[0])


def _measure(report: Report, columns: list[Column], options: argparse.Namespace) -> None:
    """Adds a row per model to `report`, and updates the JSON file after each."""
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=len(options.models))
        for name in options.models:
            progress.update(task, description=name)
            row, notes = time_job(
                name,
                _job(name, options.batch),
                columns,
                rounds=options.rounds,
                budget=options.budget,
            )
            report.rows.append(row)
            report.notes += notes
            gc.collect()
            if options.json:
                report.write_json(options.json)
            progress.advance(task)


def _job(name: str, batch: int) -> Job:
    calibration = [images(name, _CALIBRATION_BATCH, seed=seed) for seed in _CALIBRATION_SEEDS]
    return Job(build(name), calibration, images(name, batch))


def _parser() -> argparse.ArgumentParser:
    all_models = [model.name for model in MODELS]
    engines = ",".join(column.name for column in COLUMNS)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--models",
        type=names,
        default=all_models,
        metavar="A,B",
        help=f"models to run, of {','.join(all_models)} (default: all)",
    )
    parser.add_argument(
        "--engines", type=names, default=[], metavar="A,B", help=f"of {engines} (default: all)"
    )
    parser.add_argument("--threads", type=positive, help="torch.set_num_threads (default: its)")
    parser.add_argument("--batch", type=positive, default=1, help="images a call (default: 1)")
    add_rounds(parser, rounds=20, budget=20.0, of="a model")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure to FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw a bar chart")
    return parser


if __name__ == "__main__":
    main()
