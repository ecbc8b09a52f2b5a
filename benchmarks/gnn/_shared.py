"""Shared by the GNN benchmarks: their options, and timing of torch, cpuaccel and peers."""

import argparse
import importlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType

import torch

from benchmarks import _machine, _plugin
from benchmarks._arguments import add_json, add_rounds, add_threads, names, positive, require_known
from benchmarks._report import Row
from benchmarks._timing import Contender, side_by_side
from benchmarks.gnn._graphs import GRAPHS, Graph

INDEX = {"int32": torch.int32, "int64": torch.int64}


def require_torch_geometric() -> None:
    """Exits if torch_geometric does not import."""
    try:
        importlib.import_module("torch_geometric.nn")
    except ImportError as error:
        raise SystemExit(
            f"torch_geometric does not import; pip install torch_geometric: {error}"
        ) from error


def check_names(options: argparse.Namespace, cases: Iterable[str]) -> None:
    """Exits if a graph or case is unknown."""
    require_known([options.graph], GRAPHS, "graph")
    require_known(options.cases, cases, "case")


def torch_columns(reasons: dict[str, str]) -> dict[str, bool]:
    """The columns that run torch's ops here, each with whether cpuaccel is enabled for it."""
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
    """A row of times: `run` in each column, `others` without cpuaccel; with cpuaccel's counters."""
    contenders = {
        column: Contender(run, partial(_plugin.enabled, on)) for column, on in each.items()
    }
    off = partial(_plugin.enabled, False)
    contenders |= {name: Contender(other, off) for name, other in others.items()}
    samples = side_by_side(contenders, rounds=options.rounds, warmup=1, budget=options.budget)
    calls = {}
    if "cpuaccel" in each:
        with _plugin.enabled(True):
            calls = _plugin.calls_of(run)
    return Row(name, samples, {**extra, "calls": calls})


def add_graph_name(parser: argparse.ArgumentParser) -> None:
    """Adds --graph."""
    parser.add_argument(
        "--graph", default="rmat", help=f"one of {', '.join(GRAPHS)} (default: rmat)"
    )


def add_graph(parser: argparse.ArgumentParser, scale: int, edges: int) -> None:
    """Adds --graph, and --scale and --edges with these defaults."""
    add_graph_name(parser)
    parser.add_argument(
        "--scale",
        type=positive,
        default=scale,
        help=f"the graph has 2^SCALE nodes (default: {scale})",
    )
    parser.add_argument(
        "--edges", type=positive, default=edges, help=f"edges of the graph (default: {edges})"
    )


def add_index(parser: argparse.ArgumentParser) -> None:
    """Adds --index."""
    parser.add_argument(
        "--index", choices=list(INDEX), default="int64", help="dtype of indices (default: int64)"
    )


def add_arguments(parser: argparse.ArgumentParser, columns: str) -> None:
    """Adds options for the graph, the columns and the time to spend."""
    add_graph(parser, scale=17, edges=4_194_304)
    add_index(parser)
    parser.add_argument(
        "--columns", type=names, default=columns, help=f"widths of rows (default: {columns})"
    )
    add_threads(parser, 1)
    add_rounds(parser, rounds=9, budget=5.0, of="a case")
    add_json(parser)
