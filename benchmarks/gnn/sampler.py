"""Counts the edges per second that cpuaccel's neighbor sampler finds, on one and more threads.

Each time covers eight batches of random nodes, sampled one after another. torch_sparse and pyg_lib
are measured too if they are installed, for the cases that they support. Results are edges per
second, so a sampler does not gain by finding fewer edges.
"""

import argparse
import importlib
import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from rich.table import Table
from torch import Tensor

from benchmarks import _machine, _plugin
from benchmarks._arguments import add_json, add_rounds, make_parser, names, positive, positives
from benchmarks._report import not_measured, print_header, print_notes
from benchmarks._timing import Contender, Sample, side_by_side
from benchmarks.gnn import _shared
from benchmarks.gnn._graphs import graph_of, matrix_of
from benchmarks.gnn._peers import missing_reason

_BATCHES = 8


@dataclass(frozen=True)
class Case:
    """Options of the sampler."""

    fan_out: tuple[int, ...]
    replace: bool = False
    disjoint: bool = False
    induced: bool = False


CASES = {
    "15-10": Case((15, 10)),
    "25-10": Case((25, 10)),
    "10-10-10": Case((10, 10, 10)),
    "15-10 replaced": Case((15, 10), replace=True),
    "15-10 disjoint": Case((15, 10), disjoint=True),
    "5-5 induced": Case((5, 5), induced=True),
}

Run = Callable[[Case, Tensor, int], int]
"""Samples around these nodes with this random seed; returns the number of edges."""


def _cpuaccel(colptr: Tensor, row: Tensor, case: Case, seeds: Tensor, number: int) -> int:
    nodes, hops = len(colptr) - 1, len(case.fan_out)
    graph = ([colptr], [row], [0], [0], [nodes])
    flags = (case.replace, case.disjoint, case.induced)
    op = torch.ops.cpuaccel.neighbor_sample
    return len(op(*graph, [0], [seeds], case.fan_out, hops, number, *flags)[4][0])


def _torch_sparse(colptr: Tensor, row: Tensor, case: Case, seeds: Tensor, _: int) -> int:
    op = torch.ops.torch_sparse.neighbor_sample
    return len(op(colptr, row, seeds, list(case.fan_out), case.replace, not case.induced)[3])


def _pyg_lib(colptr: Tensor, row: Tensor, case: Case, seeds: Tensor, _: int) -> int:
    sample = importlib.import_module("pyg_lib.sampler").neighbor_sample
    flags = {"replace": case.replace, "disjoint": case.disjoint}
    return len(sample(colptr, row, seeds, list(case.fan_out), csc=True, **flags)[3])


_PEERS: dict[str, tuple[Callable[..., int], Callable[[Case], bool]]] = {
    "torch_sparse": (_torch_sparse, lambda case: not case.disjoint),
    "pyg_lib": (_pyg_lib, lambda case: not case.induced),
}
"""The samplers, and the cases that each supports."""


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    _shared.check_names(options, CASES)
    if reason := _plugin.missing():
        raise SystemExit(f"nothing to measure: {reason}")
    importlib.import_module("cpuaccel._ops.sample")
    warnings.filterwarnings("ignore", "Sparse (CSR|invariant)")
    source_graph = graph_of(options.graph, options.scale, options.edges)
    matrix = matrix_of(source_graph, _shared.INDEX[options.index])
    # The CSR matrix is used as CSC: either is the matrix of some graph.
    graph = (matrix.crow_indices(), matrix.col_indices())
    reasons = {name: missing_reason(name) for name in _PEERS}
    peers = [name for name, reason in reasons.items() if not reason]
    generator = torch.Generator().manual_seed(3)
    nodes = source_graph.nodes
    size = min(options.batch, nodes)
    batches = [torch.randperm(nodes, generator=generator)[:size] for _ in range(_BATCHES)]
    batches = [each.to(graph[0].dtype) for each in batches]
    rows = {case: _measure(CASES[case], graph, batches, peers, options) for case in options.cases}
    columns = [*(_column_of(threads) for threads in options.threads), *peers]
    console = _machine.console()
    facts = {
        key: value
        for key, value in _shared.facts(options, source_graph).items()
        if key != "threads"
    }
    facts["batch"] = f"{size:,} nodes"
    print_header(console, "millions of edges sampled per second, from the median time", facts)
    console.print(_table(rows, columns))
    print_notes(console, not_measured(reasons))
    if options.json:
        document = {"machine": facts, "rows": [_as_json(name, row) for name, row in rows.items()]}
        options.json.write_text(json.dumps(document, indent=1) + "\n")


@dataclass(frozen=True)
class Measured:
    """For one case, the times of all batches and their edges, by contender."""

    samples: dict[str, Sample]
    edges: dict[str, int]

    def rate(self, name: str) -> float | None:
        """Edges per second."""
        return self.edges[name] / self.samples[name].median if name in self.samples else None


def _column_of(threads: int) -> str:
    return f"cpuaccel, {threads} thread{'' if threads == 1 else 's'}"


def _measure(
    case: Case,
    graph: tuple[Tensor, Tensor],
    batches: list[Tensor],
    peers: list[str],
    options: argparse.Namespace,
) -> Measured:
    runs: dict[str, tuple[Run, int]] = {
        _column_of(threads): (partial(_cpuaccel, *graph), threads) for threads in options.threads
    }
    for name in peers:
        function, takes = _PEERS[name]
        if takes(case):
            runs[name] = (partial(function, *graph), 1)
    edges = {name: _sample_all(run, case, batches) for name, (run, _) in runs.items()}
    contenders = {
        name: Contender(partial(_sample_all, run, case, batches), partial(_threads, threads))
        for name, (run, threads) in runs.items()
    }
    return Measured(
        side_by_side(contenders, rounds=options.rounds, warmup=1, budget=options.budget), edges
    )


def _sample_all(run: Run, case: Case, batches: list[Tensor]) -> int:
    return sum(run(case, seeds, number) for number, seeds in enumerate(batches))


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _table(rows: dict[str, Measured], columns: list[str]) -> Table:
    table = Table()
    table.add_column("fan-out", no_wrap=True)
    table.add_column("edges\nper batch", justify="right")
    for name in columns:
        table.add_column(f"{name}\nM edges/s", justify="right")
    table.add_column("spread", justify="right")
    for name, row in rows.items():
        rates = [row.rate(column) for column in columns]
        cells = ["-" if rate is None else f"{rate / 1e6:.1f}" for rate in rates]
        spread = max(sample.spread for sample in row.samples.values())
        table.add_row(name, f"{row.edges[columns[0]] / _BATCHES:,.0f}", *cells, f"{spread:.0%}")
    return table


def _as_json(name: str, row: Measured) -> dict[str, object]:
    return {
        "name": name,
        "edges": row.edges,
        "times": {column: sample.to_dict() for column, sample in row.samples.items()},
        "edges_per_second": {column: row.rate(column) for column in row.samples},
    }


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    _shared.add_graph(parser, scale=17, edges=4_194_304)
    _shared.add_index(parser)
    parser.add_argument(
        "--batch", type=positive, default=1024, help="nodes per batch (default: 1024)"
    )
    parser.add_argument(
        "--threads", type=positives, default=[1, 2], help="numbers of threads (default: 1,2)"
    )
    parser.add_argument(
        "--cases",
        type=names,
        default=list(CASES),
        help=f"names from {','.join(CASES)} (default: all)",
    )
    add_rounds(parser, rounds=9, budget=10.0, of="a case")
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
