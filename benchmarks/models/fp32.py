"""Times models with float32 weights: torch, cpuaccel and other runtimes.

They run in fp32, under bf16 autocast, or with float32 products in bf16 arithmetic (`--mode`). All
columns share the same random weights; the JSON file has the error of each against torch's fp32.
Peers are measured if they are installed (`requirements/peers.txt`).
"""

import argparse

import torch

from benchmarks import _machine, _plot
from benchmarks._arguments import (
    add_batch,
    add_json,
    add_names,
    add_plot,
    add_rounds,
    add_threads,
    make_parser,
    names,
    positive,
)
from benchmarks._report import Report
from benchmarks.models import _float_models
from benchmarks.models._columns import choose
from benchmarks.models._float_columns import NAMES, RATIOS, columns
from benchmarks.models._job import Job
from benchmarks.models._modes import MODES, mode
from benchmarks.models._run import time_models


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
        facts={**facts, "tokens per text": str(options.sequence)},
        columns=[column.name for column in chosen],
        ratios=list(RATIOS),
        notes=notes,
    )
    time_models(report, chosen, lambda name: _job(name, options), options)
    report.print(_machine.console())
    if options.plot:
        _plot.write_plot(report, options.plot, base=report.columns[0])


def _job(name: str, options: argparse.Namespace) -> Job:
    x = _float_models.inputs(name, options.batch, options.sequence)
    return Job(_float_models.build(name), [], x)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    parser.add_argument(
        "--models",
        type=names,
        default=list(_float_models.ALL),
        metavar="A,B",
        help=f"models of fp32 or int8_fx (default: {','.join(_float_models.ALL)})",
    )
    parser.add_argument(
        "--mode",
        choices=[each.name for each in MODES],
        default="fp32",
        help="arithmetic (default: fp32)",
    )
    add_names(parser, "--engines", NAMES, "engine")
    add_threads(parser)
    add_batch(parser, 1, "images or texts")
    parser.add_argument(
        "--sequence", type=positive, default=128, help="tokens per text (default: 128)"
    )
    add_rounds(parser, rounds=20, budget=20.0, of="a model")
    add_json(parser)
    add_plot(parser)
    return parser


if __name__ == "__main__":
    main()
