"""Graphs to run on, the same in every run: sizes and skew of real ones, none downloaded."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Graph:
    """So many nodes; edge i begins in col[i] and ends in row[i], in no order. Edges may repeat."""

    nodes: int
    row: np.ndarray
    col: np.ndarray


Make = Callable[[int, int, np.random.Generator], Graph]
"""Of a number of nodes, a power of two, and of edges; but what is of one size is of that size."""

_QUARTERS = np.cumsum([0.57, 0.19, 0.19])
"""R-MAT's probabilities: of both upper halves, of one of them, of the other."""


def _rmat(nodes: int, edges: int, random: np.random.Generator) -> Graph:
    """R-MAT: few nodes have most of the edges."""
    row, col = np.zeros(edges, np.int64), np.zeros(edges, np.int64)
    for _ in range(nodes.bit_length() - 1):
        quarter = np.searchsorted(_QUARTERS, random.random(edges), side="right")
        row, col = 2 * row + (quarter >= 2), 2 * col + quarter % 2
    return Graph(nodes, row, col)


def _shuffled(nodes: int, edges: int, random: np.random.Generator) -> Graph:
    graph = _rmat(nodes, edges, random)
    names = random.permutation(nodes)
    return Graph(nodes, names[graph.row], names[graph.col])


def chung_lu(sigma: float, nodes: int, edges: int, random: np.random.Generator) -> Graph:
    """Both ends of an edge are nodes by their weight; these are log-normal, which is the skew."""
    upto = np.cumsum(random.lognormal(sigma=sigma, size=nodes))
    ends = (np.searchsorted(upto, random.random(edges) * upto[-1]) for _ in range(2))
    row, col = (np.minimum(each, nodes - 1) for each in ends)
    return Graph(nodes, row, col)


REDDIT, PRODUCTS = 0.96, 1.36
"""sigma at which the largest of so many degrees is as many times their mean as in the real graph:
Reddit's 21,657 of 232,965 nodes are 44 times it, ogbn-products' 17,481 of 2,449,029 346 times.
"""


def _uniform(nodes: int, edges: int, random: np.random.Generator) -> Graph:
    return Graph(nodes, random.integers(0, nodes, edges), random.integers(0, nodes, edges))


def _star(nodes: int, edges: int, random: np.random.Generator) -> Graph:
    """Half of the edges end in one node."""
    graph = _uniform(nodes, edges, random)
    graph.row[: edges // 2] = nodes // 3
    return graph


def small_graphs(
    sizes: np.ndarray, edges_of_a_node: float, random: np.random.Generator
) -> tuple[Graph, np.ndarray]:
    """Graphs of these sizes side by side, no edge between two; and which of them a node is in."""
    nodes = int(sizes.sum())
    batch = np.repeat(np.arange(len(sizes)), sizes)
    first = np.cumsum(sizes) - sizes
    row = random.integers(0, nodes, round(nodes * edges_of_a_node))
    within = (random.random(len(row)) * sizes[batch[row]]).astype(np.int64)
    return Graph(nodes, row, first[batch[row]] + within), batch


def sizes_of_graphs(count: int, mean: float, random: np.random.Generator) -> np.ndarray:
    """Log-normal, as those of PROTEINS about are: many are small and a few have hundreds."""
    sizes = random.lognormal(np.log(mean) - 0.32, 0.8, count)
    return np.maximum(2, sizes.round()).astype(np.int64)


PROTEINS = (39.06, 145.63 / 39.06)
"""Nodes of a graph, and edges of a node, on average."""


def _proteins(nodes: int, _: int, random: np.random.Generator) -> Graph:
    """About so many nodes."""
    mean, edges_of_a_node = PROTEINS
    sizes = sizes_of_graphs(max(1, round(nodes / mean)), mean, random)
    return small_graphs(sizes, edges_of_a_node, random)[0]


def _karate(_: int, __: int, ___: np.random.Generator) -> Graph:
    """Zachary's karate club: the one real graph that torch_geometric brings along."""
    try:
        from torch_geometric.datasets import KarateClub
    except ImportError as error:
        raise SystemExit(f"the karate club is torch_geometric's: {error}") from error
    data = KarateClub()[0]
    col, row = data.edge_index.numpy()
    return Graph(int(data.num_nodes), row, col)


GRAPHS: dict[str, Make] = {
    "rmat": _shuffled,
    "rmat-clustered": _rmat,
    "chung-lu-reddit": partial(chung_lu, REDDIT),
    "chung-lu-products": partial(chung_lu, PRODUCTS),
    "uniform": _uniform,
    "star": _star,
    "proteins": _proteins,
    "karate": _karate,
}


def graph_of(name: str, scale: int, edges: int) -> Graph:
    """GRAPHS[name] of 2^scale nodes and so many edges, or of the size that it has."""
    return GRAPHS[name](1 << scale, edges, np.random.default_rng(1))


def ends_of(graph: Graph, index: torch.dtype) -> tuple[Tensor, Tensor]:
    """Where the edges begin and end."""
    return torch.from_numpy(graph.col).to(index), torch.from_numpy(graph.row).to(index)


def matrix_of(graph: Graph, index: torch.dtype) -> Tensor:
    """The CSR matrix with float32 values; entry (i, j) is an edge that ends in i."""
    places = graph.row * graph.nodes + graph.col
    places.sort()
    counts = np.bincount(graph.row, minlength=graph.nodes)
    crow = np.concatenate([[0], np.cumsum(counts)])
    values = torch.rand(len(places), generator=torch.Generator().manual_seed(1))
    return torch.sparse_csr_tensor(
        torch.from_numpy(crow).to(index),
        torch.from_numpy(places % graph.nodes).to(index),
        values,
        (graph.nodes, graph.nodes),
        check_invariants=False,
    )
