"""Layers of torch_geometric in a training step, for the tests of compiled layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

NODES, EDGES, FEATURES = 30, 200, 8

LAYERS: dict[str, Callable[[Any], nn.Module]] = {
    "GCN": lambda pyg: pyg.GCNConv(FEATURES, 4),
    "SAGE mean": lambda pyg: pyg.SAGEConv(FEATURES, 4),
    "SAGE max": lambda pyg: pyg.SAGEConv(FEATURES, 4, aggr="max"),
    "GIN": lambda pyg: pyg.GINConv(nn.Linear(FEATURES, 4)),
    "Graph": lambda pyg: pyg.GraphConv(FEATURES, 4),
    "GAT": lambda pyg: pyg.GATConv(FEATURES, 4, heads=2),
    "GAT one head": lambda pyg: pyg.GATConv(FEATURES, 4, add_self_loops=False),
    "GATv2": lambda pyg: pyg.GATv2Conv(FEATURES, 4, heads=2, concat=False),
}


class Step(nn.Module):
    """A layer and a loss."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, *inputs: Tensor) -> Tensor:
        result: Tensor = self.layer(*inputs).relu().square().mean()
        return result


def graph() -> tuple[Tensor, Tensor]:
    """A graph with self-loops, some of them twice."""
    edge_index = torch.randint(0, NODES, (2, EDGES))
    edge_index[:, :5] = 7
    return torch.randn(NODES, FEATURES), edge_index


def grads(model: nn.Module) -> list[Tensor]:
    """The gradients of all parameters that have one."""
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
