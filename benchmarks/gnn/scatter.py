"""Rows reduced by an index and read by one, as layers of graphs do: torch beside cpuaccel.

The index is where a graph's edges end, shuffled, or in order where a case says so; the rows are
float32. "amax" is scatter_reduce_, "mean" index_reduce_, a "step" is forward and backward; segments
are counted anew in each call, which is part of its time. Run as `python -m benchmarks.gnn.scatter`
from a checkout's root.
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
from benchmarks._arguments import names
from benchmarks._report import Ratio, Report, left_out
from benchmarks.gnn import _both
from benchmarks.gnn._graphs import edges_of

Call = Callable[[Tensor, Tensor, Tensor], object]
"""Of the rows of all nodes, which may be written to, the index, and the rows of all edges."""


def _spread(index: Tensor, columns: int) -> Tensor:
    return index[:, None].expand(-1, columns)


def _scatter_add(nodes: Tensor, index: Tensor, edges: Tensor) -> object:
    return nodes.scatter_add_(0, _spread(index, edges.shape[1]), edges)


def _index_add(nodes: Tensor, index: Tensor, edges: Tensor) -> object:
    return nodes.index_add_(0, index, edges)


def _amax(nodes: Tensor, index: Tensor, edges: Tensor) -> object:
    into = _spread(index, edges.shape[1])
    return nodes.scatter_reduce_(0, into, edges, "amax", include_self=False)


def _amax_step(nodes: Tensor, index: Tensor, edges: Tensor) -> object:
    """Forward and backward."""
    needs = edges.detach().requires_grad_()
    reduced = _amax(torch.zeros_like(nodes), index, needs)
    return torch.autograd.grad(reduced, needs, nodes)


def _mean(nodes: Tensor, index: Tensor, edges: Tensor) -> object:
    return nodes.index_reduce_(0, index, edges, "mean", include_self=False)


def _segment(reduce: str, nodes: Tensor, index: Tensor, edges: Tensor) -> object:
    """Of as many segments as there are nodes, as long as the index has them, in their order."""
    lengths = torch.bincount(index, minlength=len(nodes))
    return torch._segment_reduce(edges, reduce, lengths=lengths)  # type: ignore[attr-defined]


def _segment_step(nodes: Tensor, index: Tensor, edges: Tensor) -> object:
    needs = edges.detach().requires_grad_()
    return torch.autograd.grad(_segment("max", nodes, index, needs), needs, nodes)


def _index_select(nodes: Tensor, index: Tensor, _: Tensor) -> object:
    return nodes.index_select(0, index)


def _gather(nodes: Tensor, index: Tensor, _: Tensor) -> object:
    return nodes.gather(0, _spread(index, nodes.shape[1]))


def _index(nodes: Tensor, index: Tensor, _: Tensor) -> object:
    return nodes[index]


CASES: dict[str, Call] = {
    "scatter_add": _scatter_add,
    "index_add": _index_add,
    "amax": _amax,
    "amax step": _amax_step,
    "mean": _mean,
    "segment sum": partial(_segment, "sum"),
    "segment max": partial(_segment, "max"),
    "segment max step": _segment_step,
    "index_select": _index_select,
    "gather": _gather,
    "index": _index,
}


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes what was asked for."""
    options = _parser().parse_args(arguments)
    _both.check_names(options, CASES)
    torch.set_num_threads(options.threads)
    reasons = {"cpuaccel": _plugin.missing()}
    ways = _both.ways(reasons)
    _, index = edges_of(options.graph, options.scale, options.edges, _both.INDEX[options.index])
    report = Report(
        "rows reduced and read by an index, median time of a call",
        _both.facts(options),
        list(ways),
        [Ratio("cpuaccel", "torch")],
        notes=left_out(reasons),
    )
    for columns in options.columns:
        for case in options.cases:
            for order, numbers in (("", index), (", in order", index.sort().values)):
                run = _run(case, numbers, int(columns), options)
                name = f"K {columns}, {case}{order}"
                report.rows.append(_both.measure(name, run, ways, options))
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    _both.add_arguments(parser)
    parser.add_argument("--cases", type=names, default=list(CASES), help=", ".join(CASES))
    return parser


if __name__ == "__main__":
    main()
