"""DGL as a peer of the GNN benchmarks: its CPU message passing, without its graphbolt library."""

import importlib
import os
import sys
from functools import cache
from types import ModuleType
from typing import Any

import torch
from torch import Tensor


@cache
def missing_reason() -> str:
    """Why DGL cannot be used, or ""."""
    try:
        _load()
    except (ImportError, OSError, AttributeError) as error:
        return f"not installed ({str(error).splitlines()[0]}): see requirements/peers-gnn.txt"
    return ""


def graph_of(matrix: Tensor) -> Any:
    """DGL's graph of a CSR matrix, where edge i is entry i; both sorted formats are built here."""
    # DGL's libxsmm products of one column require edge ids, though they are not needed.
    numbers = torch.arange(matrix.values().numel(), dtype=matrix.col_indices().dtype)
    edges = (matrix.crow_indices(), matrix.col_indices(), numbers)
    graph = _load().graph(("csc", edges), num_nodes=matrix.shape[0])
    graph.create_formats_()
    return graph


def graph_of_ends(index: Tensor, nodes: int) -> Any:
    """DGL's graph of edges that end in the nodes of `index`; where they start does not matter."""
    graph = _load().graph((torch.zeros_like(index), index), num_nodes=nodes)
    graph.create_formats_()
    return graph


def reduced(graph: Any, reduce: str, x: Tensor, weights: Tensor | None) -> Tensor:
    """For each node, the sum, mean or max over its incoming edges of the source's row of x.

    Each row is multiplied by the edge's weight if `weights` is given.
    """
    name = {"amax": "max"}.get(reduce, reduce)
    if weights is None:
        return _load().ops.gspmm(graph, "copy_lhs", name, x, None)
    return _load().ops.gspmm(graph, "mul", name, x, weights[:, None])


def reduced_edges(graph: Any, reduce: str, edges: Tensor) -> Tensor:
    """For each node, the sum, mean or max over the rows of its incoming edges."""
    return _load().ops.gspmm(graph, "copy_rhs", reduce, None, edges)


def reduced_segments(lengths: Tensor, reduce: str, rows: Tensor) -> Tensor:
    """The sum or max of each segment of sorted rows."""
    return _load().ops.segment_reduce(lengths, rows, reducer=reduce)


def _load() -> Any:
    """Imports DGL without graphbolt, whose library must match the torch release (up to 2.2.1)."""
    os.environ.setdefault("DGLBACKEND", "pytorch")
    sys.modules.setdefault("dgl.graphbolt", ModuleType("dgl.graphbolt"))
    return importlib.import_module("dgl")
