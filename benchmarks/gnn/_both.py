"""Shared by the GNN benchmarks: times torch, cpuaccel and peers on a graph."""

import argparse
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

import torch

from benchmarks import _machine, _plugin
from benchmarks._arguments import add_rounds, names, positive
from benchmarks._report import Row
from benchmarks._timing import Contender, side_by_side
from benchmarks.gnn._graphs import GRAPHS, Graph

INDEX = {"int32": torch.int32, "int64": torch.int64}


def check_names(options: argparse.Namespace, cases: Iterable[str]) -> None:
    """Exits if a graph or case is unknown."""
    for name, known in ((options.graph, GRAPHS), *((case, cases) for case in options.cases)):
        if name not in known:
            raise SystemExit(f"unknown name {name!r}; known: {', '.join(known)}")


def ways(reasons: dict[str, str]) -> dict[str, bool]:
    """The names of what can be measured, each with whether cpuaccel is enabled for it."""
    both = {"torch": False, "cpuaccel": True}
    return {name: on for name, on in both.items() if not reasons.get(name)}


def facts(options: argparse.Namespace, graph: Graph) -> dict[str, str]:
    """Facts on the machine and the graph."""
    return {
        **_machine.describe(),
        "graph": f"{options.graph}, {graph.nodes:,} nodes, {len(graph.row):,} edges, "
        f"{options.index} indices, float32",
    }


def measure(
    name: str,
    run: Callable[[], object],
    each: dict[str, bool],
    options: argparse.Namespace,
    others: Mapping[str, Callable[[], object]] = MappingProxyType({}),
    **extra: object,
) -> Row:
    """A row of times of `run`, each way, with cpuaccel's counters, and of `others` without it."""
    contenders = {way: Contender(run, partial(_plugin.enabled, on)) for way, on in each.items()}
    off = partial(_plugin.enabled, False)
    contenders |= {name: Contender(other, off) for name, other in others.items()}
    samples = side_by_side(contenders, rounds=options.rounds, warmup=1, budget=options.budget)
    calls = {}
    if "cpuaccel" in each:
        with _plugin.enabled(True):
            calls = _plugin.calls_of(run)
    return Row(name, samples, {**extra, "calls": calls})


def add_arguments(parser: argparse.ArgumentParser, columns: str) -> None:
    """Adds options for the graph, the columns and the time to spend."""
    parser.add_argument("--graph", default="rmat", help=f"one of {', '.join(GRAPHS)}")
    parser.add_argument("--scale", type=positive, default=17, help="2^SCALE nodes (default: 17)")
    parser.add_argument("--edges", type=positive, default=4_194_304, help="default: 4194304")
    parser.add_argument("--index", choices=list(INDEX), default="int64")
    parser.add_argument("--columns", type=names, default=columns, help=f"default: {columns}")
    parser.add_argument("--threads", type=positive, default=1, help="default: 1")
    add_rounds(parser, rounds=9, budget=5.0, of="a line")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure to FILE")
