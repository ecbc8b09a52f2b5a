"""Times the twelve rows of the PyG table in PyTorch 2.0's announcement with and without cpuaccel.

The announcement compares torch 2.0 with 1.13.1 on two Xeon 8380. This benchmark compares the
installed torch without cpuaccel, with cpuaccel and an unchanged model, and with cpuaccel after
`cpuaccel.gnn.accelerate`. The data sets are not available, so graphs of the same sizes and degree
skew are generated (Chung-Lu). Large graphs are reduced: they have 1/SCALE of the nodes and edges.

Column `kernels` is the share of gathers, scatters and sparse products in a step of torch alone. If
it is below one half, the rest of the step limits the speedup. Batches are drawn beforehand and are
the same for all columns. Needs torch_geometric.
"""

import argparse
import copy
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from rich.table import Table
from torch import nn
from torch.profiler import ProfilerActivity, profile

from benchmarks import _machine, _plugin
from benchmarks._arguments import add_json, add_rounds, add_threads, make_parser, positive
from benchmarks._report import Ratio, Report, Row, print_header, show_ratio
from benchmarks._timing import Contender, side_by_side
from benchmarks.gnn import _blog_jobs, _shared
from benchmarks.gnn._blog_jobs import Job
from benchmarks.gnn._blog_rows import ROWS, BlogRow

_RATIOS = (Ratio("cpuaccel", "torch"), Ratio("accelerated", "torch"))

_KERNELS = {
    "aten::scatter",
    "aten::scatter_",
    "aten::scatter_add",
    "aten::scatter_add_",
    "aten::scatter_reduce",
    "aten::scatter_reduce_",
    "aten::index",
    "aten::index_select",
    "aten::index_add",
    "aten::index_add_",
    "aten::index_put_",
    "aten::gather",
    "aten::_segment_reduce",
    "aten::_sparse_mm",
    "aten::_sparse_mm_reduce_impl",
    "aten::_sparse_mm_reduce_impl_backward",
}
"""The profiler's names of graph kernels. Their time includes the ops that they call."""


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints or writes the results."""
    options = _parser().parse_args(arguments)
    rows = [row for row in ROWS if options.rows in row.name]
    if not rows:
        raise SystemExit(f"no row contains {options.rows!r}: {', '.join(row.name for row in ROWS)}")
    if reason := _plugin.missing():
        raise SystemExit(f"nothing to measure: {reason}")
    _shared.require_torch_geometric()
    warnings.filterwarnings("ignore", "Sparse (CSR|invariant)")
    torch.set_num_threads(options.threads)
    facts = {
        **_machine.describe(),
        "scale": f"1/{options.scale} of Reddit's and ogbn-products' nodes and edges",
        "step": f"{options.batches} batches",
    }
    report = Report("median time of a step", facts, list(_COLUMNS), list(_RATIOS))
    table = Table()
    table.add_column("", no_wrap=True)
    headings = [f"{name} ms" for name in _COLUMNS] + ["cpuaccel", "accelerated", "announced"]
    for heading in (*headings, "kernels", "spread"):
        table.add_column(heading, justify="right")
    table.add_column("graph")
    for row in rows:
        job = _blog_jobs.make(row, options.scale, options.batches)
        report.rows.append(_measure(row, job, options))
        table.add_row(*_cells(report.rows[-1]))
        if options.json:
            report.write_json(options.json)
    console = _machine.console()
    print_header(console, report.title, facts)
    console.print(table)


def _unchanged(model: nn.Module) -> nn.Module:
    return model


_COLUMNS: dict[str, tuple[bool, Callable[[nn.Module], nn.Module]]] = {
    "torch": (False, _unchanged),
    "cpuaccel": (True, _unchanged),
    "accelerated": (True, _plugin.accelerate),
}
"""Columns: whether cpuaccel is enabled, and how the model is changed."""


def _measure(row: BlogRow, job: Job, options: argparse.Namespace) -> Row:
    contenders: dict[str, Contender] = {}
    for name, (on, change) in _COLUMNS.items():
        with _plugin.enabled(on):
            step = partial(job.step, change(copy.deepcopy(job.model)))
        contenders[name] = Contender(step, partial(_plugin.enabled, on))
    with _plugin.enabled(False):
        share = kernel_share(contenders["torch"].run)
    with _plugin.enabled(True):
        calls = _plugin.calls_of(contenders["cpuaccel"].run)
    samples = side_by_side(contenders, rounds=options.rounds, warmup=1, budget=options.budget)
    extra = {"announced": row.blog, "kernel_share": share, "graph": job.graph, "calls": calls}
    return Row(row.name, samples, extra)


def kernel_share(run: Callable[[], object]) -> float:
    """The share of graph kernels in the time of the second call, by torch.profiler."""
    run()
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        run()
    events = profiled.events() or []
    outermost = [event for event in events if _is_kernel(event) and not _within_kernel(event)]
    total = sum(event.self_cpu_time_total for event in events)
    return sum(event.cpu_time_total for event in outermost) / total if total else 0.0


def _is_kernel(event: Any) -> bool:
    return event.name in _KERNELS


def _within_kernel(event: Any) -> bool:
    while event := event.cpu_parent:
        if _is_kernel(event):
            return True
    return False


def _cells(row: Row) -> list[str]:
    times = [f"{row.samples[name].median * 1e3:.1f}" for name in _COLUMNS]
    ratios = [show_ratio(ratio.of(row.samples)) for ratio in _RATIOS]
    spread = max(sample.spread for sample in row.samples.values())
    shares = [f"{row.extra['kernel_share']:.0%}", f"{spread:.0%}"]
    return [
        row.name,
        *times,
        *ratios,
        f"{row.extra['announced']:.2f}x",
        *shares,
        row.extra["graph"],
    ]


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    parser.add_argument(
        "--rows", default="", metavar="TEXT", help="only rows whose name contains TEXT"
    )
    parser.add_argument(
        "--scale",
        type=positive,
        default=8,
        help="large graphs have 1/SCALE of the nodes and edges (default: 8)",
    )
    parser.add_argument("--batches", type=positive, default=2, help="batches per step (default: 2)")
    add_threads(parser, 1)
    add_rounds(parser, rounds=5, budget=10.0, of="a row")
    add_json(parser)
    return parser


if __name__ == "__main__":
    main()
