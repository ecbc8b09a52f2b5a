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
from benchmarks.models._modes import MODES, Mode, mode

ENGINES = ("cpuaccel+dynamic", "cpuaccel+static", "inductor+dynamic")

# They have no common divisor, so no kernel's block size divides them all.
LENGTHS = (17, 29, 43, 61, 87, 101, 131, 173, 219, 257, 311, 383)

_MODES = [each.name for each in MODES if each.name != "fastmath"]


@dataclass
class Way:
    """A column: a model compiled on `backend`, for changing sizes or for each size separately."""

    name: str
    backend: str
    dynamic: bool
    within: Around
    missing: Callable[[], str] = str
    graphs: int = 0
    """Graphs compiled so far."""
    ready: list[int] = field(default_factory=list)
    """Sized regions and partitions that cpuaccel's backend made, pass by pass."""

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
    ways = [way for way in _ways(mode(options.mode)) if way.name in options.engines]
    reasons = {way.name: way.missing() for way in ways}
    ways = [way for way in ways if not reasons[way.name]]
    if not ways:
        raise SystemExit("nothing to measure: " + "; ".join(not_measured(reasons)))
    report = Report(
        title=f"{options.model} in {options.mode}, median latency",
        facts=_machine.describe(),
        columns=[way.name for way in ways],
        ratios=[Ratio(ENGINES[0], base) for base in ENGINES[1:]],
        notes=not_measured(reasons),
    )
    with torch.inference_mode(), quiet():
        _measure(report, ways, options)
    report.print(_machine.console())


def _ways(chosen: Mode) -> list[Way]:
    return [
        Way(ENGINES[0], "cpuaccel", True, chosen.plugin, backend_missing),
        Way(ENGINES[1], "cpuaccel", False, chosen.plugin, backend_missing),
        Way(ENGINES[2], "inductor", True, chosen.torch),
    ]


def _measure(report: Report, ways: list[Way], options: argparse.Namespace) -> None:
    """Adds a row per length to `report`, and the compilations to its notes."""
    model = _bert.build(options.model, options.layers)
    inputs = [
        _bert.tokens(options.model, options.batches[at % len(options.batches)], length)
        for at, length in enumerate(options.lengths)
    ]
    calls = {way.name: way.compiled(model) for way in ways}
    with (
        torch._dynamo.config.patch(recompile_limit=2 * len(inputs)),
        Progress(console=Console(stderr=True)) as progress,
    ):
        task = progress.add_task("compiling", total=2 * len(ways) + len(inputs))
        for _ in range(2):
            for way in ways:
                _pass(way, calls[way.name], inputs)
                progress.advance(task)
        for x in inputs:
            progress.update(task, description=_name(x))
            contenders = {
                way.name: Contender(
                    partial(calls[way.name], x), partial(_plugin.enabled, way.plugin)
                )
                for way in ways
            }
            samples = side_by_side(contenders, rounds=options.rounds, budget=options.budget)
            report.rows.append(Row(_name(x), samples))
            progress.advance(task)
            if options.json:
                report.write_json(options.json)
    report.notes += [_compilations(way) for way in ways]


def _name(x: Tensor) -> str:
    return " x ".join(map(str, x.shape))


def _pass(way: Way, call: Callable[[Tensor], object], inputs: list[Tensor]) -> None:
    """Calls with each input, and counts the compilations."""
    from torch._dynamo.utils import counters

    graphs, ready = counters["stats"]["unique_graphs"], _made_ready()
    with _plugin.enabled(way.plugin):
        for x in inputs:
            call(x)
    way.graphs += counters["stats"]["unique_graphs"] - graphs
    way.ready.append(_made_ready() - ready)


def _made_ready() -> int:
    """How many parts of compiled models cpuaccel's backend has prepared for a shape so far."""
    if _plugin.missing():
        return 0
    return int(importlib.import_module("cpuaccel").stats()["graph_cache"]["misses"])


def _compilations(way: Way) -> str:
    first, second = way.ready
    text = f"{way.name}: {way.graphs} compilations of the graph"
    ready = f"; plans made: {first} in the first pass over the sizes, {second} in the second"
    return text + (ready if way.plugin else "")


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    parser.add_argument(
        "--model",
        choices=list(_bert.CONFIGS),
        default="minilm-l6",
        help="text encoder (default: minilm-l6)",
    )
    parser.add_argument("--layers", type=positive, help="layers of the model (default: all)")
    parser.add_argument("--mode", choices=_MODES, default="fp32", help="arithmetic (default: fp32)")
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
