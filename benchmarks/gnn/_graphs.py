"""Synthetic graphs for the GNN benchmarks: sizes and skew of real ones, the same in every run."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Graph:
    """Edge i goes from node col[i] to node row[i]. Edges are unordered and may repeat."""

    nodes: int
    row: np.ndarray
    col: np.ndarray


Make = Callable[[int, int, np.random.Generator], Graph]
"""Makes a graph of a number of nodes (a power of two) and of edges.

Graphs of a fixed size ignore both.
"""

_QUARTERS = np.cumsum([0.57, 0.19, 0.19])
"""Cumulative R-MAT probabilities of the quadrants (0, 0), (0, 1) and (1, 0)."""


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
    """Chung-Lu graph: both ends of an edge are drawn by node weight.

    The weights are log-normal with deviation `sigma`, which sets the skew.
    """
    upto = np.cumsum(random.lognormal(sigma=sigma, size=nodes))
    ends = (np.searchsorted(upto, random.random(edges) * upto[-1]) for _ in range(2))
    row, col = (np.minimum(each, nodes - 1) for each in ends)
    return Graph(nodes, row, col)


REDDIT, PRODUCTS = 0.96, 1.36
"""sigma that reproduces the real graph's ratio of its largest to its mean degree.

That is 44 for Reddit (21,657, 232,965 nodes) and 346 for ogbn-products (17,481, 2,449,029 nodes).
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
    """Disjoint union of graphs of these sizes, and the number of each node's graph."""
    nodes = int(sizes.sum())
    batch = np.repeat(np.arange(len(sizes)), sizes)
    first = np.cumsum(sizes) - sizes
    row = random.integers(0, nodes, round(nodes * edges_of_a_node))
    within = (random.random(len(row)) * sizes[batch[row]]).astype(np.int64)
    return Graph(nodes, row, first[batch[row]] + within), batch


def sizes_of_graphs(count: int, mean: float, random: np.random.Generator) -> np.ndarray:
    """Log-normal sizes, roughly as in PROTEINS: many small graphs, a few of hundreds of nodes."""
    sizes = random.lognormal(np.log(mean) - 0.32, 0.8, count)
    return np.maximum(2, sizes.round()).astype(np.int64)


PROTEINS = (39.06, 145.63 / 39.06)
"""Average nodes per graph, and average edges per node."""


def _proteins(nodes: int, _: int, random: np.random.Generator) -> Graph:
    """Graphs with about `nodes` nodes in total."""
    mean, edges_of_a_node = PROTEINS
    sizes = sizes_of_graphs(max(1, round(nodes / mean)), mean, random)
    return small_graphs(sizes, edges_of_a_node, random)[0]


def _karate(_: int, __: int, ___: np.random.Generator) -> Graph:
    """Zachary's karate club, the one real graph that torch_geometric contains."""
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
    """GRAPHS[name] with 2^scale nodes and `edges` edges, or with its own size if that is fixed."""
    return GRAPHS[name](1 << scale, edges, np.random.default_rng(1))


def ends_of(graph: Graph, index: torch.dtype) -> tuple[Tensor, Tensor]:
    """The source and the target node of each edge."""
    return torch.from_numpy(graph.col).to(index), torch.from_numpy(graph.row).to(index)


def matrix_of(graph: Graph, index: torch.dtype) -> Tensor:
    """The CSR matrix with float32 values; entry (i, j) is an edge from j to i."""
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
