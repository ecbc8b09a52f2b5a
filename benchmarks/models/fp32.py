"""Models of float32 weights, side by side: torch, cpuaccel, and other runtimes.

They run in fp32, under bf16 autocast, or with float32 products in bf16 arithmetic (`--mode`). All
columns share the same random weights; the JSON file has each one's error against torch's fp32.
Peers run if they are installed (`requirements/peers.txt`). Run as
`python -m benchmarks.models.fp32` from a checkout's root.
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
from benchmarks.models import _float_models
from benchmarks.models._columns import Column, choose
from benchmarks.models._float_columns import NAMES, RATIOS, columns
from benchmarks.models._job import Job
from benchmarks.models._modes import MODES, mode
from benchmarks.models._run import time_job


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        for name in options.models:
            _float_models.check(name)
        chosen, notes = choose(options.engines, columns(mode(options.mode)))
    except ValueError as error:
        parser.error(str(error))
    if options.plot:
        _plot.require()
    if not chosen:
        raise SystemExit("nothing to measure: " + "; ".join(notes))
    if options.threads:
        torch.set_num_threads(options.threads)
    facts = _machine.describe(batch=options.batch)
    report = Report(
        title=f"models in {options.mode}, median latency",
        facts={**facts, "tokens a row of text": str(options.sequence)},
        columns=[column.name for column in chosen],
        ratios=list(RATIOS),
        notes=notes,
    )
    _measure(report, chosen, options)
    report.print(_machine.console())
    if options.plot:
        _plot.write_plot(report, options.plot, base=report.columns[0])


def _measure(report: Report, chosen: list[Column], options: argparse.Namespace) -> None:
    """Adds a row per model to `report`, and updates the JSON file after each."""
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=len(options.models))
        for name in options.models:
            progress.update(task, description=name)
            x = _float_models.inputs(name, options.batch, options.sequence)
            row, notes = time_job(
                name,
                Job(_float_models.build(name), [], x),
                chosen,
                rounds=options.rounds,
                budget=options.budget,
            )
            report.rows.append(row)
            report.notes += notes
            gc.collect()
            if options.json:
                report.write_json(options.json)
            progress.advance(task)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--models",
        type=names,
        default=list(_float_models.ALL),
        metavar="A,B",
        help=f"default: {','.join(_float_models.ALL)}; also those of int8_fx",
    )
    parser.add_argument(
        "--mode", choices=[each.name for each in MODES], default="fp32", help="default: fp32"
    )
    parser.add_argument(
        "--engines",
        type=names,
        default=[],
        metavar="A,B",
        help=f"of {','.join(NAMES)} (default: all)",
    )
    parser.add_argument("--threads", type=positive, help="torch.set_num_threads (default: its)")
    parser.add_argument("--batch", type=positive, default=1, help="images or rows (default: 1)")
    parser.add_argument(
        "--sequence", type=positive, default=128, help="tokens a row of text (default: 128)"
    )
    add_rounds(parser, rounds=20, budget=20.0, of="a model")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure to FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw a bar chart")
    return parser


if __name__ == "__main__":
    main()
