"""The workloads of PyTorch 2.0's PyG table: a torch_geometric model and batches drawn beforehand.

Inference runs layer by layer, as torch_geometric's `inference` does: each layer takes all neighbors
of a batch's nodes and reads their rows from a table of all nodes. Training samples ten neighbors
per hop. Every step gets copies of its batches, because a loader's batches are new each time.
Nothing cached for a graph is therefore reused, unless the batch is the full graph.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.gnn._blog_rows import DATA, BlogRow, Many, Whole
from benchmarks.gnn._graphs import chung_lu, ends_of, matrix_of, sizes_of_graphs, small_graphs

_NEIGHBORS = 10

Step = Callable[[nn.Module], object]


@dataclass(frozen=True)
class Job:
    """A model, the function of one step, and a description of the graph."""

    model: nn.Module
    step: Step
    graph: str


@dataclass(frozen=True)
class Batch:
    """Node ids, the edges between these nodes, and `size`, the number of seed nodes."""

    nodes: Tensor
    edges: Tensor
    size: int


def make(row: BlogRow, scale: int, batches: int) -> Job:
    """The job of a row on 1/scale of the nodes and edges; one step runs `batches` batches."""
    data = DATA[row.data]
    torch.manual_seed(1)
    return (
        _many(row, data, batches) if isinstance(data, Many) else _whole(row, data, scale, batches)
    )


def _model(row: BlogRow, features: int, classes: int) -> nn.Module:
    models: Any = importlib.import_module("torch_geometric.nn.models")
    made: nn.Module = getattr(models, row.model)(features, row.hidden, row.layers, classes)
    return made


def _whole(row: BlogRow, data: Whole, scale: int, batches: int) -> Job:
    nodes = max(1, data.nodes // scale)
    graph = chung_lu(data.sigma, nodes, data.edges // scale, np.random.default_rng(1))
    edge_index = torch.stack(ends_of(graph, torch.int64))
    model = _model(row, data.features, data.classes)
    x = torch.randn(nodes, data.features)
    about = f"{nodes:,} nodes, {edge_index.shape[1]:,} edges"
    if not row.batch:
        matrix = matrix_of(graph, torch.int64) if row.sparse else edge_index
        return Job(model.eval(), partial(_infer_whole, x, matrix), about)
    fan_out = [_NEIGHBORS] * row.layers if row.train else [-1]
    drawn = _draw(edge_index, nodes, row, fan_out, batches)
    count = sum(_edges(batch.edges) for batch in drawn) // len(drawn)
    about += f", {count:,} in a batch"
    if row.train:
        target = torch.randint(data.classes, (nodes,))
        return Job(model.train(), partial(_train, _with_rows(drawn, x, target)), about)
    tables = [x, *(torch.randn(nodes, row.hidden) for _ in range(row.layers - 1))]
    return Job(model.eval(), partial(_infer, drawn, tables), about)


def _many(row: BlogRow, data: Many, batches: int) -> Job:
    random = np.random.default_rng(1)
    drawn = []
    for _ in range(batches):
        sizes = sizes_of_graphs(row.batch, data.nodes, random)
        graph, batch = small_graphs(sizes, data.edges_of_a_node, random)
        edge_index = torch.stack(ends_of(graph, torch.int64))
        x, target = (
            torch.randn(graph.nodes, data.features),
            torch.randint(data.classes, (row.batch,)),
        )
        drawn.append((x, edge_index, torch.from_numpy(batch), target))
    model = _Classifier(_model(row, data.features, row.hidden), row.hidden, data.classes)
    about = (
        f"{row.batch} graphs, {len(drawn[0][0]):,} nodes, {drawn[0][1].shape[1]:,} edges a batch"
    )
    return Job(model.train(), partial(_train, drawn), about)


class _Classifier(nn.Module):
    """Classifies graphs: the mean over each graph's nodes, then a linear layer."""

    def __init__(self, inner: nn.Module, hidden: int, classes: int) -> None:
        super().__init__()
        self.inner, self.last = inner, nn.Linear(hidden, classes)
        self.pool = importlib.import_module("torch_geometric.nn").global_mean_pool

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        pooled: Tensor = self.last(self.pool(self.inner(x, edge_index), batch))
        return pooled


def _draw(
    edge_index: Tensor, nodes: int, row: BlogRow, fan_out: list[int], batches: int
) -> list[Batch]:
    """Batches of random nodes, drawn by cpuaccel's NeighborLoader."""
    data = importlib.import_module("torch_geometric.data").Data
    loader = importlib.import_module("cpuaccel.gnn").NeighborLoader
    size = min(row.batch, nodes)
    drawn = []
    for _ in range(batches):
        first = torch.randperm(nodes)[:size]
        graph = data(edge_index=edge_index, num_nodes=nodes)
        batch = next(iter(loader(graph, fan_out, input_nodes=first, batch_size=size)))
        edges = _matrix(batch.edge_index, batch.num_nodes) if row.sparse else batch.edge_index
        drawn.append(Batch(batch.n_id, edges, size))
    return drawn


def _matrix(edge_index: Tensor, nodes: int) -> Tensor:
    to_matrix = importlib.import_module("torch_geometric.utils").to_torch_csr_tensor
    matrix: Tensor = to_matrix(edge_index.flip(0), size=(nodes, nodes))
    return matrix


def _edges(edges: Tensor) -> int:
    return edges.values().numel() if edges.layout == torch.sparse_csr else edges.shape[1]


def _with_rows(batches: list[Batch], x: Tensor, target: Tensor) -> list[tuple[Tensor, ...]]:
    return [(x[each.nodes], each.edges, target[each.nodes[: each.size]]) for each in batches]


def _infer_whole(x: Tensor, edges: Tensor, model: nn.Module) -> None:
    with torch.no_grad():
        model(x, edges)


def _infer(batches: list[Batch], tables: list[Tensor], model: nn.Module) -> None:
    per_layer: Any = model.inference_per_layer
    for layer, table in enumerate(tables):
        for batch in batches:
            with torch.no_grad():
                per_layer(layer, table[batch.nodes], batch.edges.clone(), batch.size)


def _train(batches: list[tuple[Tensor, ...]], model: nn.Module) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    for x, edges, *where, target in batches:
        optimizer.zero_grad()
        y = model(x, edges.clone(), *(each.clone() for each in where))
        nn.functional.cross_entropy(y[: len(target)], target).backward()
        optimizer.step()
