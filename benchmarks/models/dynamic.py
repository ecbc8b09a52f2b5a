"""Times a compiled text encoder over many lengths: compiled once for all lengths, or once for each.

Column `cpuaccel+dynamic` is `torch.compile(dynamic=True)` with cpuaccel's backend.
`cpuaccel+static` is compiled for each size separately. `inductor+dynamic` is Inductor's. Below the
table are the number of compilations of each column, and the number of plans that cpuaccel's backend
made in the first and the second pass over the sizes.
"""

import argparse
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from torch import Tensor

from benchmarks import _bert, _machine, _plugin
from benchmarks._arguments import (
    add_json,
    add_names,
    add_rounds,
    add_threads,
    make_parser,
    positive,
    positives,
)
from benchmarks._quantize import quiet
from benchmarks._report import Ratio, Report, Row, not_measured
from benchmarks._timing import Around, Contender, side_by_side
from benchmarks.models._compiled import backend_missing
from benchmarks.models._modes import WITHOUT_FASTMATH, Mode, add_mode, mode

ENGINES = ("cpuaccel+dynamic", "cpuaccel+static", "inductor+dynamic")

# They have no common divisor, so no kernel's block size divides them all.
LENGTHS = (17, 29, 43, 61, 87, 101, 131, 173, 219, 257, 311, 383)


@dataclass
class Column:
    """A model compiled on `backend`, for changing sizes or for each size separately."""

    name: str
    backend: str
    dynamic: bool
    within: Around
    missing: Callable[[], str] = str
    graphs: int = 0
    """Graphs compiled so far."""
    plans: list[int] = field(default_factory=list)
    """Plans that cpuaccel's backend made, for each pass."""

    @property
    def plugin(self) -> bool:
        """Whether cpuaccel is enabled."""
        return self.backend == "cpuaccel"

    def compiled(self, model: torch.nn.Module) -> Callable[[Tensor], object]:
        """Compiles `model` on this backend; its calls run in the context of the mode."""
        of: Any = torch.compile(model, backend=self.backend, dynamic=self.dynamic)

        def call(x: Tensor) -> object:
            with self.within():
                return of(x)

        return call


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    columns = [column for column in _columns(mode(options.mode)) if column.name in options.engines]
    reasons = {column.name: column.missing() for column in columns}
    columns = [column for column in columns if not reasons[column.name]]
    if not columns:
        raise SystemExit("nothing to measure: " + "; ".join(not_measured(reasons)))
    report = Report(
        title=f"{options.model} in {options.mode}, median latency",
        facts=_machine.describe(),
        columns=[column.name for column in columns],
        ratios=[Ratio(ENGINES[0], base) for base in ENGINES[1:]],
        notes=not_measured(reasons),
    )
    with torch.inference_mode(), quiet():
        _measure(report, columns, options)
    report.print(_machine.console())


def _columns(chosen: Mode) -> list[Column]:
    return [
        Column(ENGINES[0], "cpuaccel", True, chosen.plugin, backend_missing),
        Column(ENGINES[1], "cpuaccel", False, chosen.plugin, backend_missing),
        Column(ENGINES[2], "inductor", True, chosen.torch),
    ]


def _measure(report: Report, columns: list[Column], options: argparse.Namespace) -> None:
    """Adds a row per length to `report`, and the compilations to its notes."""
    model = _bert.build(options.model, options.layers)
    inputs = [
        _bert.tokens(options.model, options.batches[at % len(options.batches)], length)
        for at, length in enumerate(options.lengths)
    ]
    calls = {column.name: column.compiled(model) for column in columns}
    with (
        torch._dynamo.config.patch(recompile_limit=2 * len(inputs)),
        Progress(console=Console(stderr=True)) as progress,
    ):
        task = progress.add_task("compiling", total=2 * len(columns) + len(inputs))
        for _ in range(2):
            for column in columns:
                _pass(column, calls[column.name], inputs)
                progress.advance(task)
        for x in inputs:
            progress.update(task, description=_name(x))
            contenders = {
                column.name: Contender(
                    partial(calls[column.name], x), partial(_plugin.enabled, column.plugin)
                )
                for column in columns
            }
            samples = side_by_side(contenders, rounds=options.rounds, budget=options.budget)
            report.rows.append(Row(_name(x), samples))
            progress.advance(task)
            if options.json:
                report.write_json(options.json)
    report.notes += [_compilations(column) for column in columns]


def _name(x: Tensor) -> str:
    return " x ".join(map(str, x.shape))


def _pass(column: Column, call: Callable[[Tensor], object], inputs: list[Tensor]) -> None:
    """Calls with each input, and counts the compilations."""
    from torch._dynamo.utils import counters

    graphs, plans = counters["stats"]["unique_graphs"], _plans_made()
    with _plugin.enabled(column.plugin):
        for x in inputs:
            call(x)
    column.graphs += counters["stats"]["unique_graphs"] - graphs
    column.plans.append(_plans_made() - plans)


def _plans_made() -> int:
    """The number of plans that cpuaccel's backend has made so far."""
    if _plugin.missing():
        return 0
    return int(importlib.import_module("cpuaccel").stats()["graph_cache"]["misses"])


def _compilations(column: Column) -> str:
    first, second = column.plans
    text = f"{column.name}: {column.graphs} compilations of the graph"
    plans = f"; plans made: {first} in the first pass over the sizes, {second} in the second"
    return text + (plans if column.plugin else "")


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    parser.add_argument(
        "--model",
        choices=list(_bert.CONFIGS),
        default="minilm-l6",
        help="text encoder (default: minilm-l6)",
    )
    parser.add_argument("--layers", type=positive, help="layers of the model (default: all)")
    add_mode(parser, WITHOUT_FASTMATH)
    parser.add_argument(
        "--lengths",
        type=positives,
        default=list(LENGTHS),
        metavar="N,M",
        help=f"tokens per text (default: {','.join(map(str, LENGTHS))})",
    )
    parser.add_argument(
        "--batches",
        type=positives,
        default=[1],
        metavar="N,M",
        help="texts per call; the lengths cycle through N,M (default: 1)",
    )
    add_names(parser, "--engines", ENGINES, "engine")
    add_threads(parser)
    add_rounds(parser, rounds=20, budget=10.0, of="a length")
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
