"""Sparse times dense products and their reductions, torch beside cpuaccel, and memory's bounds.

Two bounds stand beside the times of the forward: `every row` is the time in which the indices, the
values, a row of x for every edge and the result can be moved from and to memory, `once` that in
which each byte is moved once; the rate is measured before and after, by a program that is built at
the first run (`benchmarks/cpp`), and `--no-peaks` leaves them out. Below `every row` are those who
find rows in a cache. A first backward sorts the graph, which is not timed: it is kept for the
next. Run as `python -m benchmarks.gnn.spmm` from a checkout's root.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from rich.table import Table
from torch import Tensor

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks import _machine, _plugin
from benchmarks._report import Ratio, Row, geomean, left_out, print_header, print_notes, show_ratio
from benchmarks.gnn import _both
from benchmarks.gnn._graphs import adjacency
from benchmarks.ops._peaks import meter

_RATIO = Ratio("cpuaccel", "torch")

Call = Callable[[Tensor, Tensor], object]


def _forward(reduce: str, matrix: Tensor, x: Tensor) -> object:
    with torch.no_grad():
        return torch.sparse.mm(matrix, x, reduce)


def _product(matrix: Tensor, x: Tensor) -> object:
    with torch.no_grad():
        return matrix @ x


def _step(reduce: str, values: bool, matrix: Tensor, x: Tensor) -> object:
    """Forward and backward, with the gradient of the values too where they are asked for."""
    needs = [x.detach().requires_grad_()]
    if values:
        matrix = matrix.detach().requires_grad_()
        needs.append(matrix)
    y = torch.sparse.mm(matrix, needs[0], reduce)
    return torch.autograd.grad(y, needs, y.detach())


CASES: dict[str, Call] = {
    "A @ x": _product,
    "sum": partial(_forward, "sum"),
    "mean": partial(_forward, "mean"),
    "amax": partial(_forward, "amax"),
    "sum, step": partial(_step, "sum", False),
    "sum, step with values": partial(_step, "sum", True),
    "amax, step": partial(_step, "amax", False),
    "amax, step with values": partial(_step, "amax", True),
}


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes what was asked for."""
    options = _parser().parse_args(arguments)
    _both.check_names(options, CASES)
    warnings.filterwarnings("ignore", "Sparse (CSR|invariant)")
    torch.set_num_threads(options.threads)
    reasons = {"cpuaccel": _plugin.missing()}
    ways = _both.ways(reasons)
    measure = meter(torch.float32) if options.peaks else None
    rate = measure().bytes if measure else 0.0
    matrix = adjacency(options.graph, options.scale, options.edges, _both.INDEX[options.index])
    rows = [
        _measure(matrix, int(columns), case, ways, options)
        for columns in options.columns
        for case in options.cases
    ]
    if measure:
        rate = max(rate, measure().bytes)
    facts = _both.facts(options)
    if rate:
        facts["memory"] = f"{rate / 1e9:.1f} GB/s read"
    console = _machine.console()
    print_header(console, "sparse products, median time of a call", facts)
    console.print(_table(rows, list(ways), matrix, rate))
    print_notes(console, left_out(reasons))
    if options.json:
        document = {
            "machine": facts,
            "rows": [
                {
                    "name": row.name,
                    "times": {name: sample.to_dict() for name, sample in row.samples.items()},
                    "ratio": _RATIO.of(row.samples),
                    **row.extra,
                }
                for row in rows
            ],
        }
        options.json.write_text(json.dumps(document, indent=1) + "\n")


def _measure(
    matrix: Tensor, columns: int, case: str, ways: dict[str, bool], options: argparse.Namespace
) -> Row:
    x = torch.randn(matrix.shape[1], columns, generator=torch.Generator().manual_seed(2))
    run = partial(CASES[case], matrix, x)
    name = f"K {columns}, {case}"
    return _both.measure(name, run, ways, options, columns=columns, case=case)


def _bounds(matrix: Tensor, columns: int, rate: float) -> tuple[float, float]:
    """Seconds of a forward: with a row of x moved for every edge, and with all moved once."""
    index = matrix.col_indices().element_size()
    edges, nodes = matrix.values().numel(), matrix.shape[0]
    common = edges * (index + 4) + nodes * (index + 4 * columns)
    every, once = edges * 4 * columns, matrix.shape[1] * 4 * columns
    return (common + every) / rate, (common + once) / rate


def _table(rows: list[Row], ways: list[str], matrix: Tensor, rate: float) -> Table:
    table = Table()
    table.add_column("", no_wrap=True)
    for heading in (*(f"{name} ms" for name in ways), "cpuaccel\nover torch", "spread"):
        table.add_column(heading, justify="right", no_wrap=True)
    if rate:
        table.add_column("every row ms", justify="right")
        table.add_column("once ms", justify="right")
    table.add_column("ran on")
    for row in rows:
        times = [f"{row.samples[name].median * 1e3:.2f}" for name in ways]
        spread = max(sample.spread for sample in row.samples.values())
        cells = [*times, show_ratio(_RATIO.of(row.samples)), f"{spread:.0%}"]
        if rate:
            bounds = _bounds(matrix, row.extra["columns"], rate)
            forward = "step" not in row.extra["case"]
            cells += [f"{bound * 1e3:.2f}" if forward else "-" for bound in bounds]
        table.add_row(row.name, *cells, ", ".join(row.extra["calls"]) or "torch")
    ratios = [ratio for row in rows if (ratio := _RATIO.of(row.samples)) is not None]
    table.add_section()
    table.add_row("geomean", *[""] * len(ways), show_ratio(geomean(ratios)))
    return table


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    _both.add_arguments(parser)
    parser.add_argument(
        "--cases",
        type=lambda text: [name.strip() for name in text.split(";")],
        default=list(CASES),
        help=f"separated by semicolons, of: {'; '.join(CASES)}",
    )
    parser.add_argument(
        "--no-peaks", dest="peaks", action="store_false", help="do not measure the memory"
    )
    return parser


if __name__ == "__main__":
    main()
