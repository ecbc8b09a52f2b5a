"""Measures the speedup of a partition on oneDNN over Inductor: the rows of costs.csv.

Each small graph is compiled twice by `backend="cpuaccel"`: once with the partitions of one family
on oneDNN, once with them on Inductor, regardless of the table. All other partitions run on oneDNN
both times. `--write` replaces this machine's rows of the table.
"""

import argparse
from collections.abc import Sequence
from datetime import date
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import _machine, _plugin
from benchmarks._arguments import add_names, add_rounds, add_threads, make_parser
from benchmarks._report import geomean, print_header
from benchmarks._timing import Contender, side_by_side
from benchmarks.partition._cases import Case, cases

_DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
_AROUND = {"convolution": True, "product": True}

Key = tuple[str, str, str, int, int]
"""Family, place, type, and the limits of a row."""


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, prints, and with --write updates the table."""
    options = _parser().parse_args(arguments)
    if _plugin.missing():
        raise SystemExit(_plugin.missing())
    chosen = [case for case in cases() if case.family in options.families]
    torch.set_num_threads(options.threads)
    todo = [(case, name) for name in options.dtypes for case in chosen]
    gains: dict[Key, list[float]] = {}
    with torch.no_grad():
        for case, dtype in track(todo, "graphs", console=Console(stderr=True)):
            key = (case.family, case.place, dtype, case.max_M, case.max_work)
            gains.setdefault(key, []).append(_gain(case, _DTYPES[dtype], options))
    rows = _rows(gains, options)
    console = _machine.console()
    print_header(console, "speedup of partitions on oneDNN over Inductor", _machine.describe())
    console.print(_table(rows, gains))
    if options.write:
        table = _write(rows)
        console.print(f"Wrote {table}; models that are compiled from now on use it.")


def _gain(case: Case, dtype: torch.dtype, options: argparse.Namespace) -> float:
    """The speedup of the graph if the partitions of the case's family are taken."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, x = case.make()
    model, x = model.eval().to(dtype), x.to(dtype)
    contenders = {
        name: Contender(partial(_compiled(model, {**_AROUND, case.family: taken}), x))
        for name, taken in (("taken", True), ("left", False))
    }
    times = side_by_side(contenders, rounds=options.rounds, budget=options.budget)
    return times["left"].median / times["taken"].median


def _compiled(model: torch.nn.Module, decisions: dict[str, bool]) -> Any:
    from cpuaccel.compile.frontend import backend
    from cpuaccel.compile.partition import cost

    def compile(gm: Any, inputs: Sequence[Any]) -> Any:
        with cost.overrule(decisions):
            return backend.compile(gm, inputs)

    return torch.compile(model, backend=compile, dynamic=False)


def _rows(gains: dict[Key, list[float]], options: argparse.Namespace) -> list[Any]:
    from cpuaccel import matmul
    from cpuaccel.compile.partition.cost_table import Row

    threads = "1 thread" if options.threads == 1 else f"{options.threads} threads"
    where = f"{options.name or matmul.machine()[0]}, {date.today()}, {threads}"
    return [
        Row(*matmul.machine(), *key, round(geomean(found), 3), where)
        for key, found in gains.items()
    ]


def _table(rows: list[Any], gains: dict[Key, list[float]]) -> Table:
    table = Table("family", "place", "dtype", "to M", "to work", "speedup", "of each graph")
    for family, group in groupby(rows, lambda row: row.family):
        for row in group:
            found = gains[(row.family, row.place, row.dtype, row.max_M, row.max_work)]
            each = " ".join(f"{gain:.2f}" for gain in found)
            limits = [f"{limit:,}" if limit else "any" for limit in (row.max_M, row.max_work)]
            table.add_row(family, row.place, row.dtype, *limits, f"{row.speedup:.2f}", each)
    return table


def _write(rows: list[Any]) -> Path:
    """Replaces this machine's rows in the table and returns its path."""
    from cpuaccel.compile.partition import cost_table

    replaced = {(row.vendor, row.isa, row.family, row.dtype) for row in rows}
    there = cost_table.read(cost_table.TABLE) if cost_table.TABLE.exists() else []
    kept = [row for row in there if (row.vendor, row.isa, row.family, row.dtype) not in replaced]
    cost_table.write(cost_table.TABLE, [*kept, *rows])
    return cost_table.TABLE


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    families = dict.fromkeys(case.family for case in cases())
    add_names(parser, "--families", list(families), "family")
    add_names(parser, "--dtypes", list(_DTYPES), "dtype")
    add_threads(parser, 1)
    parser.add_argument(
        "--name", default="", help="name of this CPU in the rows (default: its vendor)"
    )
    add_rounds(parser, rounds=15, budget=1.5, of="a graph")
    parser.add_argument(
        "--write", action="store_true", help="replace this machine's rows in costs.csv"
    )
    return parser


if __name__ == "__main__":
    main()
