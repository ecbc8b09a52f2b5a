"""Graphs to run on, the same in every run: sizes and skew of real ones, none downloaded."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

_QUARTERS = np.cumsum([0.57, 0.19, 0.19])
"""R-MAT's probabilities: of both upper halves, of one of them, of the other."""


def _rmat(nodes: int, edges: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """R-MAT: few nodes have most of the edges. Edges may repeat; `nodes` is a power of two."""
    row, col = np.zeros(edges, np.int64), np.zeros(edges, np.int64)
    for _ in range(nodes.bit_length() - 1):
        quarter = np.searchsorted(_QUARTERS, random.random(edges), side="right")
        row, col = 2 * row + (quarter >= 2), 2 * col + quarter % 2
    return row, col


def _shuffled(nodes: int, edges: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    row, col = _rmat(nodes, edges, random)
    names = random.permutation(nodes)
    return names[row], names[col]


def _uniform(nodes: int, edges: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return random.integers(0, nodes, edges), random.integers(0, nodes, edges)


def _star(nodes: int, edges: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Half of the edges end in one node."""
    row, col = _uniform(nodes, edges, random)
    row[: edges // 2] = nodes // 3
    return row, col


GRAPHS: dict[str, Callable[..., tuple[np.ndarray, np.ndarray]]] = {
    "rmat": _shuffled,
    "rmat-clustered": _rmat,
    "uniform": _uniform,
    "star": _star,
}


def edges_of(name: str, scale: int, edges: int, index: torch.dtype) -> tuple[Tensor, Tensor]:
    """Where the edges of GRAPHS[name], 2^scale nodes, begin and end, in no order."""
    row, col = GRAPHS[name](1 << scale, edges, np.random.default_rng(1))
    return torch.from_numpy(col).to(index), torch.from_numpy(row).to(index)


def adjacency(name: str, scale: int, edges: int, index: torch.dtype) -> Tensor:
    """The CSR matrix of GRAPHS[name], 2^scale nodes, with float32 values."""
    nodes = 1 << scale
    row, col = GRAPHS[name](nodes, edges, np.random.default_rng(1))
    order = np.lexsort((col, row))
    crow = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=nodes))])
    values = torch.rand(edges, generator=torch.Generator().manual_seed(1))
    return torch.sparse_csr_tensor(
        torch.from_numpy(crow).to(index),
        torch.from_numpy(col[order]).to(index),
        values,
        (nodes, nodes),
        check_invariants=False,
    )
