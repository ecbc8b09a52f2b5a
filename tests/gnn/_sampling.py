"""Graphs to sample from, and the properties that a sample must have."""

from __future__ import annotations

import importlib
import itertools
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

needs_pyg = pytest.mark.usefixtures("pyg")


@dataclass
class Csc:
    """A graph's edges in CSC format, by the nodes that they end in."""

    colptr: Tensor
    row: Tensor

    @property
    def nodes(self) -> int:
        return len(self.colptr) - 1

    def neighbors(self, node: int) -> list[int]:
        return self.row[self.colptr[node] : self.colptr[node + 1]].tolist()


def csc(nodes: int, edges: int, seed: int = 0, index: torch.dtype = torch.int64) -> Csc:
    """Random edges; a tenth of them end in node 0, and some nodes have none."""
    generator = torch.Generator().manual_seed(seed)
    row = torch.randint(0, nodes, (edges,), generator=generator)
    col = torch.randint(0, nodes, (edges,), generator=generator)
    col[: edges // 10] = 0
    col[col % 11 == 5] = 0
    counts = torch.bincount(col, minlength=nodes)
    colptr = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    return Csc(colptr.to(index), row.to(index))


@dataclass
class Sampled:
    """What the op returns for a graph of one type."""

    node: Tensor
    batch: Tensor
    src: Tensor
    dst: Tensor
    edge: Tensor
    nodes_of_hop: list[int]
    edges_of_hop: list[int]


def load_op() -> None:
    """Registers torch.ops.cpuaccel.neighbor_sample."""
    importlib.import_module("cpuaccel._ops.sample")


def arguments(graph: Csc, seeds: Tensor, fan_out: list[int], seed: int = 0) -> tuple[Any, ...]:
    """The op's arguments for a graph of one type; flags follow."""
    hops = len(fan_out)
    return (
        [graph.colptr],
        [graph.row],
        [0],
        [0],
        [graph.nodes],
        [0],
        [seeds],
        fan_out,
        hops,
        seed,
    )


def sample(graph: Csc, seeds: Tensor, fan_out: list[int], seed: int = 0, **flags: bool) -> Sampled:
    """Samples a graph of one type by the op itself."""
    load_op()
    out = torch.ops.cpuaccel.neighbor_sample(*arguments(graph, seeds, fan_out, seed), **flags)
    *parts, nodes_of_hop, edges_of_hop = out
    return Sampled(*(part[0] for part in parts), nodes_of_hop[0].tolist(), edges_of_hop[0].tolist())


def hops_of(graph: Csc, seeds: list[int], hops: int) -> list[set[int]]:
    """The nodes that are new in each hop if all neighbors are taken."""
    seen = set(seeds)
    found = [seen]
    for _ in range(hops):
        new = {n for node in found[-1] for n in graph.neighbors(node)} - seen
        found.append(new)
        seen = seen | new
    return found


def slices(counts: list[int]) -> list[range]:
    """Consecutive ranges of these lengths."""
    ends = [0, *itertools.accumulate(counts)]
    return [range(begin, end) for begin, end in itertools.pairwise(ends)]
