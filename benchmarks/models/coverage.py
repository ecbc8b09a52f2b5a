"""Counts the models that compile on cpuaccel's backend and match eager mode.

`--through optimize` checks `cpuaccel.optimize` instead. The models are from torchvision,
transformers and diffusers. int8 models are those that convert_fx accepts; they are compared with
themselves in eager mode. Weights are random and inputs are small; nothing is timed. The packages
besides torchvision are in `requirements/peers.txt`; models of missing packages are listed.
"""

import argparse
import json
import warnings
from collections import Counter
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks import _machine, _report
from benchmarks._arguments import add_json, add_names, add_threads, make_parser
from benchmarks.models import (
    _compiled,
    _coverage_blocks,
    _coverage_nets,
    _coverage_transformers,
)
from benchmarks.models._coverage_case import Case
from benchmarks.models._coverage_check import THROUGH, Outcome, check
from cpuaccel.compile.validate.bounds import BOUNDS

_MODES = tuple(BOUNDS)
_TITLES = {
    "compile": "models compiled on cpuaccel, compared with eager mode",
    "optimize": "models through cpuaccel.optimize, compared with eager mode",
}
_DONE = {"compile": "compile", "optimize": "run a plan"}


def cases() -> dict[str, Case]:
    """Every model by its name."""
    found = (
        *_coverage_nets.cases(),
        *_coverage_transformers.cases(),
        *_coverage_blocks.cases(),
    )
    return {case.name: case for case in found}


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, compiles and compares, and prints or writes the results."""
    known = cases()
    options = _parser(known).parse_args(arguments)
    if _compiled.backend_missing():
        raise SystemExit(f"nothing to measure: {_compiled.backend_missing()}")
    if options.threads:
        torch.set_num_threads(options.threads)
    missing = {name: known[name].missing() for name in options.models}
    outcomes = _run([known[n] for n in options.models if not missing[n]], options)
    console = _machine.console()
    _print(console, outcomes, options)
    _report.print_notes(console, _report.not_measured(missing))


def _run(chosen: list[Case], options: argparse.Namespace) -> list[Outcome]:
    """Runs each model in each mode; prints a row and updates the JSON file after each."""
    outcomes: list[Outcome] = []
    errors = Console(stderr=True)
    with Progress(console=errors) as progress:
        rows = [(c, m) for c in chosen for m in options.mode if m != "int8" or c.quantizes]
        task = progress.add_task("", total=len(rows))
        for case, mode in rows:
            progress.update(task, description=f"{case.name} {mode}")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                outcome = check(case, mode, options.through)
            outcomes.append(outcome)
            errors.print(f"{case.name} {mode}: {_verdict(outcome)}", markup=False)
            if options.json:
                _write(options.json, outcomes, options.through)
            progress.advance(task)
    return outcomes


def _verdict(outcome: Outcome) -> str:
    return f"matches {outcome.against}" if outcome.matches else outcome.problem


def _write(path: Path, outcomes: list[Outcome], through: str) -> None:
    document = {
        "title": _TITLES[through],
        "machine": _machine.describe(),
        "bounds": BOUNDS,
        "rows": [outcome.to_dict() for outcome in outcomes],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def _print(console: Console, outcomes: list[Outcome], options: argparse.Namespace) -> None:
    _report.print_header(console, _TITLES[options.through], _machine.describe())
    table = Table(
        "", "mode", "", *("error", "allowed", "graphs", "breaks", "regions", "partitions")
    )
    for one in outcomes:
        table.add_row(
            one.name,
            one.mode,
            _verdict(one),
            f"{one.error:.1e}",
            f"{one.allowed:.1e}",
            *(str(n) for n in (one.graphs, sum(one.breaks.values()), one.regions, one.partitions)),
        )
    console.print(table)
    others = "Inductor" if options.through == "compile" else "torch"
    for mode in options.mode:
        rows = [one for one in outcomes if one.mode == mode]
        breaks = Counter({f"{one.name}: {why}": n for one in rows for why, n in one.breaks.items()})
        left = Counter[str]()
        for one in rows:
            left.update(one.left)
        _report.print_notes(
            console, (f"{mode}: runs on {others}: {n} x {why}" for why, n in left.most_common())
        )
        _report.print_notes(
            console, (f"{mode}: graph break: {n} x {why}" for why, n in breaks.items())
        )
        _report.print_notes(console, [f"{mode}: bound of the error: {BOUNDS[mode]}"])
        done = _DONE[options.through]
        console.print(
            f"{sum(one.matches for one in rows)} of {len(rows)} {done} and match in {mode}"
            f" ({sum(one.compiles for one in rows)} {done})",
            style="bold",
            highlight=False,
        )


def _parser(known: dict[str, Case]) -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    add_names(parser, "--models", list(known), "model")
    add_names(parser, "--mode", _MODES, "mode")
    parser.add_argument(
        "--through",
        choices=THROUGH,
        default=THROUGH[0],
        help="compile with torch.compile, or call cpuaccel.optimize (default: compile)",
    )
    add_threads(parser)
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
