"""Times scatter, gather and segment ops on rows of a graph: torch, cpuaccel and peers.

The index holds the destination nodes of a graph's edges, shuffled, or sorted ("in order"). Rows are
float32. "amax" is scatter_reduce_, "mean" is index_reduce_, and a "step" is forward and backward.
The time of a segment op includes counting the segment lengths. DGL and torch_scatter are measured
too if they are installed (`requirements/peers-gnn.txt`), with cpuaccel disabled. Cases that gather
rows also have a column `copy`: as many bytes as the result, copied in order to existing memory.
"""

import argparse
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from benchmarks import _machine, _plugin
from benchmarks._arguments import make_parser, names
from benchmarks._report import Ratio, Report, not_measured
from benchmarks.gnn import _shared
from benchmarks.gnn._graphs import ends_of, graph_of
from benchmarks.gnn._peers import ROWS, Call


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
    """Reduces one segment per node; the segment lengths are counted from the index."""
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
READING = {"index_select", "gather", "index"}


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    _shared.check_names(options, CASES)
    torch.set_num_threads(options.threads)
    reasons = {"cpuaccel": _plugin.missing()}
    reasons |= {name: peer.missing() for name, peer in ROWS.items()}
    torch_columns = _shared.torch_columns(reasons)
    peers = [name for name in ROWS if not reasons[name]]
    graph = graph_of(options.graph, options.scale, options.edges)
    _, index = ends_of(graph, _shared.INDEX[options.index])
    columns = [*torch_columns, *peers, *(["copy"] if READING.intersection(options.cases) else [])]
    report = Report(
        "scatter, gather and segment ops, median time of a call",
        _shared.facts(options, graph),
        columns,
        [Ratio("cpuaccel", name) for name in columns if name != "cpuaccel"],
        notes=not_measured(reasons),
    )
    orders = {"": index, ", in order": index.sort().values}
    with _plugin.enabled(False):
        calls = {
            order: {name: ROWS[name].prepare(numbers, graph.nodes) for name in peers}
            for order, numbers in orders.items()
        }
    for width in options.columns:
        for case in options.cases:
            for order, numbers in orders.items():
                data = _data(numbers, graph.nodes, int(width))
                others = {n: partial(c[case], *data) for n, c in calls[order].items() if case in c}
                if case in READING:
                    others["copy"] = _copy(data[2])
                name = f"K {width}, {case}{order}"
                run = partial(CASES[case], *data)
                report.rows.append(_shared.measure(name, run, torch_columns, options, others))
    report.print(_machine.console())
    if options.json:
        report.write_json(options.json)


def _data(index: Tensor, nodes: int, columns: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of the nodes, the index, rows of the edges."""
    generator = torch.Generator().manual_seed(2)
    rows = (torch.randn(count, columns, generator=generator) for count in (nodes, len(index)))
    return next(rows), index, next(rows)


def _copy(rows: Tensor) -> Callable[[], object]:
    return partial(torch.empty_like(rows).copy_, rows)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    _shared.add_arguments(parser, columns="1,4,16,64,128")
    parser.add_argument(
        "--cases",
        type=names,
        default=list(CASES),
        help=f"names from {','.join(CASES)} (default: all)",
    )
    return parser


if __name__ == "__main__":
    main()
