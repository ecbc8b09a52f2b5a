"""Times products of a sparse and a dense matrix, and reductions: torch, cpuaccel and peers.

DGL and torch_sparse are measured too if they are installed (`requirements/peers-gnn.txt`), with the
graph prepared beforehand and cpuaccel disabled. "dgl, no values" omits the values of the matrix:
that is less work, but DGL has its fastest kernel for it.

Two bounds are printed next to the times of the forward. `every row` is the time to move the
indices, the values, a row of x for every edge and the result from and to memory. `once` is the time
to move each byte once. The memory bandwidth is measured before and after by a program that the
first run builds (`benchmarks/cpp`); `--no-peaks` omits the bounds. A kernel can be faster than
`every row` if it finds rows in a cache. The first backward sorts the graph and caches the order; it
is not timed.
"""

import argparse
import json
import warnings
from dataclasses import dataclass
from functools import partial

import torch
from rich.table import Table
from torch import Tensor

from benchmarks import _machine, _plugin
from benchmarks._arguments import make_parser
from benchmarks._report import (
    Ratio,
    Row,
    geomean,
    not_measured,
    print_header,
    print_notes,
    show_ratio,
)
from benchmarks._timing import Sample
from benchmarks.gnn import _shared
from benchmarks.gnn._graphs import graph_of, matrix_of
from benchmarks.gnn._peers import PRODUCTS, Product
from benchmarks.ops._peaks import add_no_peaks, meter


@dataclass(frozen=True)
class Case:
    """A reduction ("" for A @ x). A `step` has a backward; with `values` also for the values."""

    reduce: str
    step: bool = False
    values: bool = False


CASES = {
    "A @ x": Case(""),
    "sum": Case("sum"),
    "mean": Case("mean"),
    "amax": Case("amax"),
    "sum, step": Case("sum", step=True),
    "sum, step with values": Case("sum", step=True, values=True),
    "amax, step": Case("amax", step=True),
    "amax, step with values": Case("amax", step=True, values=True),
}


def _of_torch(case: Case, matrix: Tensor, x: Tensor) -> object:
    if not case.step:
        with torch.no_grad():
            return torch.sparse.mm(matrix, x, case.reduce) if case.reduce else matrix @ x
    needs = [x.detach().requires_grad_()]
    if case.values:
        matrix = matrix.detach().requires_grad_()
        needs.append(matrix)
    y = torch.sparse.mm(matrix, needs[0], case.reduce)
    return torch.autograd.grad(y, needs, y.detach())


def _of_peer(case: Case, product: Product, values: Tensor, x: Tensor) -> object:
    reduce = case.reduce or "sum"
    if not case.step:
        with torch.no_grad():
            return product(reduce, values, x)
    needs = [x.detach().requires_grad_()]
    if case.values:
        values = values.detach().requires_grad_()
        needs.append(values)
    y = product(reduce, values, needs[0])
    return torch.autograd.grad(y, needs, y.detach())


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    _shared.check_names(options, CASES)
    warnings.filterwarnings("ignore", "Sparse (CSR|invariant)")
    torch.set_num_threads(options.threads)
    reasons = {"cpuaccel": _plugin.missing()}
    reasons |= {name: peer.missing() for name, peer in PRODUCTS.items()}
    torch_columns = _shared.torch_columns(reasons)
    measure = meter(torch.float32) if options.peaks else None
    rate = measure().bytes if measure else 0.0
    graph = graph_of(options.graph, options.scale, options.edges)
    matrix = matrix_of(graph, _shared.INDEX[options.index])
    with _plugin.enabled(False):
        peers = {n: peer.prepare(matrix) for n, peer in PRODUCTS.items() if not reasons[n]}
    columns = [*torch_columns, *peers]
    ratios = [Ratio("cpuaccel", name) for name in columns if name != "cpuaccel"]
    rows = [
        _measure(matrix, int(columns), case, torch_columns, peers, options)
        for columns in options.columns
        for case in options.cases
    ]
    if measure:
        rate = max(rate, measure().bytes)
    facts = _shared.facts(options, graph)
    if rate:
        facts["memory"] = f"{rate / 1e9:.1f} GB/s read"
    console = _machine.console()
    print_header(console, "sparse products, median time of a call", facts)
    console.print(_table(rows, columns, ratios, matrix, rate))
    print_notes(console, not_measured(reasons))
    if options.json:
        document = {
            "machine": facts,
            "rows": [
                {
                    "name": row.name,
                    "times": {name: sample.to_dict() for name, sample in row.samples.items()},
                    "ratios": {ratio.label: ratio.of(row.samples) for ratio in ratios},
                    **row.extra,
                }
                for row in rows
            ],
        }
        options.json.write_text(json.dumps(document, indent=1) + "\n")


def _measure(
    matrix: Tensor,
    columns: int,
    name: str,
    torch_columns: dict[str, bool],
    peers: dict[str, Product],
    options: argparse.Namespace,
) -> Row:
    case = CASES[name]
    x = torch.randn(matrix.shape[1], columns, generator=torch.Generator().manual_seed(2))
    run = partial(_of_torch, case, matrix, x)
    others = {
        peer: partial(_of_peer, case, product, matrix.values(), x)
        for peer, product in peers.items()
        if PRODUCTS[peer].weighted or not case.values
    }
    heading = f"K {columns}, {name}"
    return _shared.measure(heading, run, torch_columns, options, others, columns=columns, case=name)


def _bounds(matrix: Tensor, columns: int, rate: float) -> tuple[float, float]:
    """Seconds of a forward: with a row of x moved for every edge, and with each byte moved once."""
    index = matrix.col_indices().element_size()
    edges, nodes = matrix.values().numel(), matrix.shape[0]
    common = edges * (index + 4) + nodes * (index + 4 * columns)
    every, once = edges * 4 * columns, matrix.shape[1] * 4 * columns
    return (common + every) / rate, (common + once) / rate


def _table(
    rows: list[Row], columns: list[str], ratios: list[Ratio], matrix: Tensor, rate: float
) -> Table:
    table = Table()
    table.add_column("", no_wrap=True)
    headings = [f"{name} ms" for name in columns]
    headings += [f"{ratio.subject}\nover {ratio.base}" for ratio in ratios]
    for heading in (*headings, "spread"):
        table.add_column(heading, justify="right")
    if rate:
        table.add_column("every row ms", justify="right")
        table.add_column("once ms", justify="right")
    table.add_column("ran on")
    for row in rows:
        times = [_time(row.samples.get(name)) for name in columns]
        spread = max(sample.spread for sample in row.samples.values())
        speeds = [show_ratio(ratio.of(row.samples)) for ratio in ratios]
        cells = [*times, *speeds, f"{spread:.0%}"]
        if rate:
            bounds = _bounds(matrix, row.extra["columns"], rate)
            forward = not CASES[row.extra["case"]].step
            cells += [f"{bound * 1e3:.2f}" if forward else "-" for bound in bounds]
        table.add_row(row.name, *cells, ", ".join(row.extra["calls"]) or "torch")
    table.add_section()
    means = [
        show_ratio(geomean(value for row in rows if (value := ratio.of(row.samples)) is not None))
        for ratio in ratios
    ]
    table.add_row("geomean", *[""] * len(columns), *means)
    return table


def _time(sample: Sample | None) -> str:
    return "-" if sample is None else f"{sample.median * 1e3:.2f}"


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    _shared.add_arguments(parser, columns="1,4,8,16,64,100,128,256,602")
    parser.add_argument(
        "--cases",
        type=lambda text: [name.strip() for name in text.split(";")],
        default=list(CASES),
        help=f"names separated by semicolons, from: {'; '.join(CASES)} (default: all)",
    )
    add_no_peaks(parser, "memory bandwidth")
    return parser


if __name__ == "__main__":
    main()
