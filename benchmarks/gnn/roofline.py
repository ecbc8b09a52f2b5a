"""Times a sparse sum per edge on graphs of growing size, next to bounds from memory bandwidth.

Graphs have 32 edges per node and int32 indices. There are two bounds. `every row` moves a row of x
for each edge, from the smallest cache that holds x, and all other data from the smallest cache that
holds everything. `once` moves each byte once. Both use the measured read bandwidth of each cache
and of memory, measured before and after by a program that the first run builds (`benchmarks/cpp`).
"""

import argparse
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from rich.table import Table
from torch import Tensor

from benchmarks import _machine, _plot, _plugin
from benchmarks._arguments import (
    add_json,
    add_plot,
    add_rounds,
    add_threads,
    make_parser,
    positive,
    require_known,
)
from benchmarks._report import not_measured, print_header, print_notes
from benchmarks._timing import Contender, Sample, side_by_side
from benchmarks.gnn import _shared
from benchmarks.gnn._graphs import GRAPHS, graph_of, matrix_of
from benchmarks.ops._peaks import add_no_peaks, reading

EDGES_OF_A_NODE = 32
_INDEX = 4
_VALUE = 4
MEMORY = "memory"


@dataclass(frozen=True)
class Machine:
    """Sizes of the caches in bytes, smallest first, and the read bandwidth of each."""

    holds: Mapping[str, int]
    rates: Mapping[str, float]

    def place(self, size: int) -> str:
        """The smallest cache that holds `size` bytes, or memory."""
        fits = (name for name, most in self.holds.items() if size <= most and name in self.rates)
        return next(fits, MEMORY)

    def seconds(self, size: int, working_set: int) -> float:
        """Seconds to read `size` bytes from where a working set of this size lies."""
        return size / self.rates[self.place(working_set)]


@dataclass(frozen=True)
class Size:
    """The sizes of a graph, and the columns of x."""

    nodes: int
    edges: int
    columns: int

    @property
    def rows(self) -> int:
        """Bytes of x, and also of the result."""
        return self.nodes * self.columns * _VALUE

    @property
    def all(self) -> int:
        """Bytes of the matrix, x and the result."""
        return self.edges * (_INDEX + _VALUE) + (self.nodes + 1) * _INDEX + 2 * self.rows

    def every_row(self, machine: Machine) -> float:
        """Seconds if a row of x is moved for each edge."""
        rows = machine.seconds(self.edges * self.columns * _VALUE, self.rows)
        return rows + machine.seconds(self.all - self.rows, self.all)

    def once(self, machine: Machine) -> float:
        """Seconds if each byte is moved once."""
        return machine.seconds(self.all, self.all)


@dataclass(frozen=True)
class Point:
    """A size, and the times of a sum on it."""

    size: Size
    samples: dict[str, Sample]

    def cost(self, name: str) -> float:
        """Nanoseconds per edge."""
        return self.samples[name].median / self.size.edges * 1e9


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints, draws or writes the results."""
    options = _parser().parse_args(arguments)
    require_known([options.graph], GRAPHS, "graph")
    if options.plot:
        _plot.require()
    warnings.filterwarnings("ignore", "Sparse (CSR|invariant)")
    torch.set_num_threads(options.threads)
    reasons = {"cpuaccel": _plugin.missing()}
    torch_columns = _shared.torch_columns(reasons)
    measure = reading() if options.peaks else None
    rates = measure() if measure else {}
    points = [
        _measure(scale, torch_columns, options) for scale in range(options.least, options.most + 1)
    ]
    if measure:
        rates = {place: max(rate, rates[place]) for place, rate in measure().items()}
    machine = Machine(_machine.caches(), rates)
    facts = {
        **_machine.describe(),
        "graph": f"{options.graph}, {EDGES_OF_A_NODE} edges a node, int32 indices, float32, "
        f"{options.columns} columns",
        **{f"read {place}": f"{rate / 1e9:.1f} GB/s" for place, rate in rates.items()},
    }
    console = _machine.console()
    print_header(console, "sparse sum, nanoseconds per edge", facts)
    console.print(_table(points, list(torch_columns), machine))
    print_notes(console, not_measured(reasons))
    if options.json:
        document = {"machine": facts, "rows": [_as_json(point, machine) for point in points]}
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    if options.plot:
        write_plot(points, list(torch_columns), machine, facts, options.plot)


def _sum(matrix: Tensor, x: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.sparse.mm(matrix, x, "sum")


def _measure(scale: int, torch_columns: dict[str, bool], options: argparse.Namespace) -> Point:
    graph = graph_of(options.graph, scale, EDGES_OF_A_NODE << scale)
    matrix = matrix_of(graph, torch.int32)
    size = Size(graph.nodes, len(graph.row), options.columns)
    del graph
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(size.nodes, size.columns, generator=generator)
    run = partial(_sum, matrix, x)
    contenders = {
        name: Contender(run, partial(_plugin.enabled, on)) for name, on in torch_columns.items()
    }
    samples = side_by_side(contenders, rounds=options.rounds, warmup=1, budget=options.budget)
    return Point(size, samples)


def _bounds(size: Size, machine: Machine) -> dict[str, float]:
    """The bounds in nanoseconds per edge; empty if no bandwidth was measured."""
    if MEMORY not in machine.rates:
        return {}
    bounds = {"every row": size.every_row(machine), "once": size.once(machine)}
    return {name: seconds / size.edges * 1e9 for name, seconds in bounds.items()}


def _table(points: list[Point], torch_columns: list[str], machine: Machine) -> Table:
    table = Table()
    headings = ["edges", "nodes", "x MiB", "x lies in", *torch_columns]
    for heading in (*headings, "every row", "once", "cpuaccel over\nevery row", "spread"):
        table.add_column(heading, justify="right")
    for point in points:
        size, bounds = point.size, _bounds(point.size, machine)
        place = machine.place(size.rows) if bounds else "-"
        cells = [f"{size.edges:,}", f"{size.nodes:,}", f"{size.rows / 2**20:.1f}", place]
        cells += [f"{point.cost(name):.2f}" for name in torch_columns]
        cells += [f"{bounds[name]:.2f}" if bounds else "-" for name in ("every row", "once")]
        known = bool(bounds) and "cpuaccel" in torch_columns
        cells.append(f"{point.cost('cpuaccel') / bounds['every row']:.2f}" if known else "-")
        spread = max(sample.spread for sample in point.samples.values())
        table.add_row(*cells, f"{spread:.0%}")
    return table


def _as_json(point: Point, machine: Machine) -> dict[str, object]:
    return {
        "edges": point.size.edges,
        "nodes": point.size.nodes,
        "times": {name: sample.to_dict() for name, sample in point.samples.items()},
        "ns_per_edge": {name: point.cost(name) for name in point.samples},
        "bounds_ns_per_edge": _bounds(point.size, machine),
    }


def write_plot(
    points: list[Point],
    torch_columns: list[str],
    machine: Machine,
    facts: dict[str, str],
    path: Path,
) -> None:
    """Draws nanoseconds per edge over the number of edges: measured times and both bounds."""
    _plot.require()
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5))
    edges = [point.size.edges for point in points]
    for name in torch_columns:
        axes.plot(edges, [point.cost(name) for point in points], marker="o", label=name)
    bounds = [_bounds(point.size, machine) for point in points]
    for name, style in (("every row", "--"), ("once", ":")):
        if all(bounds):
            axes.plot(edges, [each[name] for each in bounds], "k" + style, label=f"bound, {name}")
    places = [machine.place(point.size.rows) for point in points]
    for before, place, at in zip(places, places[1:], edges[1:], strict=False):
        if all(bounds) and before != place:
            axes.axvline(at / 2**0.5, color="gray", linewidth=0.6)
            axes.annotate(
                f" x in {place}",
                (at / 2**0.5, 1),
                xycoords=("data", "axes fraction"),
                va="top",
                fontsize=8,
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("edges")
    axes.set_ylabel("ns per edge")
    axes.set_title(f"torch.sparse.mm, sum\n{facts['graph']}, {facts['cpu']}", fontsize=9)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    _shared.add_graph_name(parser)
    parser.add_argument("--columns", type=positive, default=64, help="columns of x (default: 64)")
    parser.add_argument(
        "--least",
        type=positive,
        default=12,
        help="the smallest graph has 2^LEAST nodes (default: 12)",
    )
    parser.add_argument(
        "--most",
        type=positive,
        default=20,
        help="the largest graph has 2^MOST nodes (default: 20, which gives 34 million edges)",
    )
    add_threads(parser, 1)
    add_rounds(parser, rounds=7, budget=3.0, of="a size")
    add_no_peaks(parser, "memory bandwidth")
    add_plot(parser)
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
