"""Peers of the GNN benchmarks, if installed: DGL, torch_sparse, torch_scatter.

Each peer gets the graph beforehand and may store it in the orders it prefers. Indices and values
are the same as torch's, but torch_sparse and torch_scatter always get int64 indices. Peers run with
cpuaccel and its allocator disabled.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from benchmarks.gnn import _dgl

Product = Callable[[str, Tensor, Tensor], Tensor]
"""(reduction, values, x): the product of the matrix with these values and x."""
Call = Callable[[Tensor, Tensor, Tensor], object]
"""(rows of all nodes, which may be overwritten; index; rows of all edges)."""


def missing_reason(module: str) -> str:
    """Why the package `module` cannot be imported, or ""."""
    try:
        importlib.import_module(module)
    except (ImportError, OSError) as error:
        return f"not installed ({str(error).splitlines()[0]})"
    return ""


@dataclass(frozen=True)
class ProductPeer:
    """A peer for sparse products: `missing` says why it cannot run; `prepare` takes a matrix."""

    missing: Callable[[], str]
    prepare: Callable[[Tensor], Product]
    weighted: bool = True


@dataclass(frozen=True)
class RowsPeer:
    """A peer for rows reduced by an index; `prepare` returns a function for each supported case."""

    missing: Callable[[], str]
    prepare: Callable[[Tensor, int], dict[str, Call]]


def _dgl_product(weighted: bool, matrix: Tensor) -> Product:
    graph = _dgl.graph_of(matrix)

    def product(reduce: str, values: Tensor, x: Tensor) -> Tensor:
        return _dgl.reduced(graph, reduce, x, values if weighted else None)

    return product


def _torch_sparse_product(matrix: Tensor) -> Product:
    torch_sparse = importlib.import_module("torch_sparse")
    adjacency = torch_sparse.SparseTensor(
        rowptr=matrix.crow_indices().long(),
        col=matrix.col_indices().long(),
        value=matrix.values(),
        sparse_sizes=tuple(matrix.shape),
        is_sorted=True,
        trust_data=True,
    ).fill_cache_()

    def product(reduce: str, values: Tensor, x: Tensor) -> Tensor:
        name = {"amax": "max"}.get(reduce, reduce)
        return torch_sparse.matmul(adjacency.set_value(values, layout="coo"), x, reduce=name)

    return product


PRODUCTS: dict[str, ProductPeer] = {
    "dgl": ProductPeer(_dgl.missing_reason, partial(_dgl_product, True)),
    "dgl, no values": ProductPeer(
        _dgl.missing_reason, partial(_dgl_product, False), weighted=False
    ),
    "torch_sparse": ProductPeer(partial(missing_reason, "torch_sparse"), _torch_sparse_product),
}
"""DGL uses libxsmm only for products without values, which do less than the case asks for."""


def _dgl_rows(index: Tensor, nodes: int) -> dict[str, Call]:
    graph = _dgl.graph_of_ends(index, nodes)

    def of_edges(reduce: str) -> Call:
        return lambda _, __, edges: _dgl.reduced_edges(graph, reduce, edges)

    def of_segments(reduce: str) -> Call:
        def run(_: Tensor, index: Tensor, edges: Tensor) -> Tensor:
            return _dgl.reduced_segments(torch.bincount(index, minlength=nodes), reduce, edges)

        return run

    return _by_case(of_edges, of_segments)


def _torch_scatter_rows(index: Tensor, nodes: int) -> dict[str, Call]:
    torch_scatter = importlib.import_module("torch_scatter")
    numbers = index.long()

    def scatter(reduce: str) -> Call:
        return lambda _, __, edges: torch_scatter.scatter(
            edges, numbers, dim=0, dim_size=nodes, reduce=reduce
        )

    def segment(reduce: str) -> Call:
        def run(_: Tensor, index: Tensor, edges: Tensor) -> Tensor:
            bounds = torch.bincount(index, minlength=nodes).cumsum(0)
            bounds = torch.cat([bounds.new_zeros(1), bounds])
            return torch_scatter.segment_csr(edges, bounds, reduce=reduce)

        return run

    return _by_case(scatter, segment)


def _by_case(rows: Callable[[str], Call], segments: Callable[[str], Call]) -> dict[str, Call]:
    """The function of each case, from a reduction by index and a reduction of segments."""
    return {
        "scatter_add": rows("sum"),
        "index_add": rows("sum"),
        "amax": rows("max"),
        "amax step": _step(rows("max")),
        "mean": rows("mean"),
        "segment sum": segments("sum"),
        "segment max": segments("max"),
        "segment max step": _step(segments("max")),
    }


def _step(forward: Call) -> Call:
    """Forward and backward."""

    def run(nodes: Tensor, index: Tensor, edges: Tensor) -> object:
        needs = edges.detach().requires_grad_()
        return torch.autograd.grad(forward(nodes, index, needs), needs, nodes)

    return run


ROWS: dict[str, RowsPeer] = {
    "dgl": RowsPeer(_dgl.missing_reason, _dgl_rows),
    "torch_scatter": RowsPeer(partial(missing_reason, "torch_scatter"), _torch_scatter_rows),
}
