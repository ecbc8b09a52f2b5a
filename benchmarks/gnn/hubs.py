"""Predicts how graph ops scale to many cores if one node has half of all edges.

Forward and backward run on 1 and on `--threads` simulated cores (benchmarks/simulation), in CPU
time, the fastest of `--rounds`. The predicted time is what runs on one thread, plus the longest
share of each parallel loop, plus `--barrier-us` for each loop. The shares of all threads run one
after the other in each call, because these ops check indices that other threads have written.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.table import Table
from torch import Tensor

from benchmarks import _machine, _plugin
from benchmarks._arguments import make_parser, positive
from benchmarks._report import print_header
from benchmarks.models._process import result_of
from benchmarks.simulation.cores import Cost, Simulation, build, compiler, environment

_HEADS, _COLUMNS, _FEW = 8, 8, 8


def main(arguments: list[str] | None = None) -> None:
    """Parses `arguments`, measures, and prints the results."""
    options = _parser().parse_args(arguments)
    if missing := _plugin.missing() or ("" if compiler() else "no C++ compiler: set CXX"):
        raise SystemExit(f"nothing to measure: {missing}")
    if options.inside:
        print(json.dumps(_inside(options)))
        return
    console = _machine.console()
    table = Table(title=f"forward and backward, {options.edges} edges, half of them of one node")
    for head in ("op", "1 thread ms", f"{options.threads} threads ms", "speed-up", "efficiency"):
        table.add_column(head, justify="left" if head == "op" else "right")
    with tempfile.TemporaryDirectory() as name:
        preload = environment(build(Path(name)), Path(name) / "tuning")
        for op in options.models:
            one, many = (_measured(op, n, preload, options) for n in (1, options.threads))
            speedup = one / many
            table.add_row(
                *(op, f"{one / 1e3:.2f}", f"{many / 1e3:.2f}", f"{speedup:.1f}"),
                f"{speedup / options.threads:.0%}",
            )
    print_header(console, "predicted scaling of graph ops", _machine.describe())
    console.print(table)


def _measured(op: str, threads: int, preload: Any, options: argparse.Namespace) -> float:
    more = ["--edges", str(options.edges), "--rounds", str(options.rounds)]
    more += ["--barrier-us", str(options.barrier_us)]
    result = result_of("benchmarks.gnn.hubs", "call", op, threads, preload, *more)
    return float(result["us"])


def _inside(options: argparse.Namespace) -> dict[str, float]:
    (op,) = options.models
    simulation = Simulation()
    run = _OPS[op](options.edges)
    run()
    simulation.start(options.threads, options.barrier_us)
    run()
    for _ in range(options.rounds):
        simulation.call(Cost.MEASURED, noting=True)
        run()
    times = []
    for _ in range(options.rounds):
        simulation.call(Cost.LONGEST)
        began = time.perf_counter()
        run()
        times.append(1e6 * (time.perf_counter() - began))
    return {"us": min(times) + simulation.regions() * options.barrier_us * (options.threads > 1)}


def _edges(count: int) -> Tensor:
    """Edges from 4096 nodes to 4096 nodes, half of them to node 0."""
    torch.manual_seed(0)
    edges = torch.randint(4096, (2, count))
    edges[1, : count // 2] = 0
    return edges


def _backward(compute: Callable[..., Tensor], *leaves: Tensor) -> Callable[[], None]:
    inputs = [leaf.requires_grad_() for leaf in leaves]
    grad = torch.randn_like(compute(*inputs).detach())

    def run() -> None:
        torch.autograd.grad(compute(*inputs), inputs, grad)

    return run


def _softmax(count: int) -> Callable[[], None]:
    from cpuaccel import gnn

    edges = _edges(count)
    return _backward(
        lambda scores: gnn.edge_softmax(scores, edges, 4096), torch.randn(count, _HEADS)
    )


def _gat(count: int) -> Callable[[], None]:
    from cpuaccel import gnn

    edges = _edges(count)
    return _backward(
        lambda x, src, dst: gnn.gat_attention(x, src, dst, edges, 0.2),
        torch.randn(4096, _HEADS, _COLUMNS),
        torch.randn(4096, _HEADS),
        torch.randn(4096, _HEADS),
    )


def _gatv2(count: int) -> Callable[[], None]:
    from cpuaccel import gnn

    edges = _edges(count)
    return _backward(
        lambda src, dst, att: gnn.gatv2_attention(src, dst, att, edges, 0.2),
        torch.randn(4096, _HEADS, _COLUMNS),
        torch.randn(4096, _HEADS, _COLUMNS),
        torch.randn(_HEADS, _COLUMNS),
    )


def _amax(count: int) -> Callable[[], None]:
    edges = _edges(count)
    order = edges[1].argsort(stable=True)
    crow = torch.zeros(4097, dtype=torch.int64)
    crow[1:] = edges[1].bincount(minlength=4096).cumsum(0)
    adjacency = torch.sparse_csr_tensor(
        crow, edges[0][order], torch.ones(count), size=(4096, 4096), requires_grad=False
    )
    return _backward(lambda x: torch.sparse.mm(adjacency, x, "amax"), torch.randn(4096, _FEW))


_OPS: dict[str, Callable[[int], Callable[[], None]]] = {
    "edge_softmax": _softmax,
    "gat_attention": _gat,
    "gatv2_attention": _gatv2,
    "sparse.mm amax": _amax,
}


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(__spec__, __doc__)
    parser.add_argument("--models", nargs="+", choices=list(_OPS), default=list(_OPS), help="ops")
    parser.add_argument("--threads", type=positive, default=32, help="cores (default: 32)")
    parser.add_argument("--edges", type=positive, default=1 << 20, help="edges (default: 1048576)")
    parser.add_argument("--rounds", type=positive, default=3, help="rounds (default: 3)")
    parser.add_argument(
        "--barrier-us", type=float, default=2.0, help="microseconds of a barrier (default: 2)"
    )
    parser.add_argument("--inside", choices=["call"], help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main()
