"""DGL, as far as it works with any torch: its messages on the CPU, not its graphbolt."""

import importlib
import os
import sys
from functools import cache
from types import ModuleType
from typing import Any

import torch
from torch import Tensor


@cache
def why_missing() -> str:
    """Why there is no DGL, or ""."""
    try:
        _load()
    except (ImportError, OSError, AttributeError) as error:
        return f"not installed ({str(error).splitlines()[0]}): see requirements/peers-gnn.txt"
    return ""


def graph_of(matrix: Tensor) -> Any:
    """Its graph of a CSR matrix, edge i being entry i; sorted by both ends, as it does once."""
    # For products of one column its libxsmm wants the edges' numbers, which it could do without.
    numbers = torch.arange(matrix.values().numel(), dtype=matrix.col_indices().dtype)
    edges = (matrix.crow_indices(), matrix.col_indices(), numbers)
    graph = _load().graph(("csc", edges), num_nodes=matrix.shape[0])
    graph.create_formats_()
    return graph


def graph_of_ends(index: Tensor, nodes: int) -> Any:
    """Its graph of edges that end where `index` says; where they begin is of no account."""
    graph = _load().graph((torch.zeros_like(index), index), num_nodes=nodes)
    graph.create_formats_()
    return graph


def reduced(graph: Any, reduce: str, x: Tensor, weights: Tensor | None) -> Tensor:
    """For each node, the sum, mean or max of x where its edges begin, times their weights."""
    name = {"amax": "max"}.get(reduce, reduce)
    if weights is None:
        return _load().ops.gspmm(graph, "copy_lhs", name, x, None)
    return _load().ops.gspmm(graph, "mul", name, x, weights[:, None])


def reduced_edges(graph: Any, reduce: str, edges: Tensor) -> Tensor:
    """For each node, the sum, mean or max of the rows of the edges that end in it."""
    return _load().ops.gspmm(graph, "copy_rhs", reduce, None, edges)


def reduced_segments(lengths: Tensor, reduce: str, rows: Tensor) -> Tensor:
    """Of rows in order, the sum or max of each segment."""
    return _load().ops.segment_reduce(lengths, rows, reducer=reduce)


def _load() -> Any:
    """Imports it. graphbolt is a library for each release of torch up to 2.2.1, or an error."""
    os.environ.setdefault("DGLBACKEND", "pytorch")
    sys.modules.setdefault("dgl.graphbolt", ModuleType("dgl.graphbolt"))
    return importlib.import_module("dgl")
