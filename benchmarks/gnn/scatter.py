"""Rows added by an index and read by one, as layers of graphs do: torch beside cpuaccel.

The index is where a graph's edges end, shuffled, or in order where a case says so; the rows are
float32. Run as `python -m benchmarks.gnn.scatter` from a checkout's root.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks import _machine, _plugin
from benchmarks._arguments import names, positive
from benchmarks._report import Ratio, Report, Row, left_out
from benchmarks._timing import Contender, side_by_side
from benchmarks.gnn._graphs import GRAPHS, edges_of

_INDEX = {"int32": torch.int32, "int64": torch.int64}

Call = Callable[[Tensor, Tensor, Tensor], object]
"""Of the rows of all nodes, which may be written to, the index, and the rows of all edges."""


def _spread(index: Tensor, columns: int) -> Tensor:
    return index[:, None].expand(-1, columns)


def _scatter_add(nodes: Tensor, index: Tensor, edges: Tensor) -> object:
    return nodes.scatter_add_(0, _spread(index, edges.shape[1]), edges)


def _index_add(nodes: Tensor, index: Tensor, edges: Tensor) -> object:
    return nodes.index_add_(0, index, edges)


def _index_select(nodes: Tensor, index: Tensor, _: Tensor) -> object:
    return nodes.index_select(0, index)


def _gather(nodes: Tensor, index: Tensor, _: Tensor) -> object:
    return nodes.gather(0, _spread(index, nodes.shape[1]))


def _index(nodes: Tensor, index: Tensor, _: Tensor) -> object:
    return nodes[index]


CASES: dict[str, Call] = {
    "scatter_add": _scatter_add,
    "index_add": _index_add,
    "index_select": _index_select,
    "gather": _gather,
    "index": _index,
}


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes what was asked for."""
    options = _parser().parse_args(arguments)
    for name, known in ((options.graph, GRAPHS), *((case, CASES) for case in options.cases)):
        if name not in known:
            raise SystemExit(f"unknown name {name!r}; known: {', '.join(known)}")
    torch.set_num_threads(options.threads)
    reasons = {"cpuaccel": _plugin.missing()}
    ways = {
        name: on for name, on in {"torch": False, "cpuaccel": True}.items() if not reasons.get(name)
    }
    _, index = edges_of(options.graph, options.scale, options.edges, _INDEX[options.index])
    report = Report(
        "rows added and read by an index, median time of a call",
        {
            **_machine.describe(),
            "graph": f"{options.graph}, {1 << options.scale:,} nodes, {options.edges:,} edges, "
            f"{options.index} indices, float32",
        },
        list(ways),
        [Ratio("cpuaccel", "torch")],
        notes=left_out(reasons),
    )
    for columns in options.columns:
        for case in options.cases:
            for order, numbers in (("", index), (", in order", index.sort().values)):
                run = _run(case, numbers, int(columns), options)
                name = f"K {columns}, {case}{order}"
                report.rows.append(_measure(name, run, ways, options))
    report.print(_machine.console())
    if options.json:
        report.write_json(options.json)


def _run(
    case: str, index: Tensor, columns: int, options: argparse.Namespace
) -> Callable[[], object]:
    generator = torch.Generator().manual_seed(2)
    nodes = torch.randn(1 << options.scale, columns, generator=generator)
    edges = torch.randn(len(index), columns, generator=generator)
    return partial(CASES[case], nodes, index, edges)


def _measure(
    name: str, run: Callable[[], object], ways: dict[str, bool], options: argparse.Namespace
) -> Row:
    contenders = {way: Contender(run, partial(_plugin.enabled, on)) for way, on in ways.items()}
    samples = side_by_side(contenders, rounds=options.rounds, warmup=1, budget=options.budget)
    calls = {}
    if "cpuaccel" in ways:
        with _plugin.enabled(True):
            calls = _plugin.calls_of(run)
    return Row(name, samples, {"calls": calls})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graph", default="rmat", help=f"one of {', '.join(GRAPHS)}")
    parser.add_argument("--scale", type=positive, default=17, help="2^SCALE nodes (default: 17)")
    parser.add_argument("--edges", type=positive, default=4_194_304, help="default: 4194304")
    parser.add_argument("--index", choices=list(_INDEX), default="int64")
    parser.add_argument("--columns", type=names, default=["1", "4", "16", "64", "128"])
    parser.add_argument("--cases", type=names, default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--threads", type=positive, default=1, help="default: 1")
    parser.add_argument("--rounds", type=positive, default=9, help="at most (default: 9)")
    parser.add_argument(
        "--budget", type=float, default=5.0, help="seconds of rounds a line (default: 5)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure to FILE")
    return parser


if __name__ == "__main__":
    main()
