"""Zachary's karate club, and the graph networks that learn its groups."""

import importlib
from typing import Any

import torch
from torch import Tensor, nn

LAYERS = ("GCN", "SAGE", "GAT")
EPOCHS = 100


class Network(nn.Module):
    """Two layers of torch_geometric with an ELU between them."""

    def __init__(self, layer: str, features: int, classes: int) -> None:
        super().__init__()
        pyg: Any = importlib.import_module("torch_geometric.nn")
        if layer == "GAT":
            self.first = pyg.GATConv(features, 4, heads=4)
            self.second = pyg.GATConv(16, classes)
        else:
            cls = {"GCN": pyg.GCNConv, "SAGE": pyg.SAGEConv}[layer]
            self.first, self.second = cls(features, 16), cls(16, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Scores of the classes, one row for each person."""
        return self.second(nn.functional.elu(self.first(x, edge_index)), edge_index)


def club() -> Any:
    """The 34 people, their 156 directed ties and their four groups; one of each is labeled."""
    return importlib.import_module("torch_geometric.datasets").KarateClub()[0]


def network(layer: str, data: Any, seed: int = 0) -> Network:
    """An untrained network for `data`."""
    torch.manual_seed(seed)
    return Network(layer, data.num_features, int(data.y.max()) + 1)


def train(model: nn.Module, data: Any, epochs: int = EPOCHS) -> list[float]:
    """Trains on the labeled people; returns the loss of each epoch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    losses = []
    for _ in range(epochs):
        optimizer.zero_grad()
        scores = model(data.x, data.edge_index)
        loss = nn.functional.cross_entropy(scores[data.train_mask], data.y[data.train_mask])
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def right(model: nn.Module, data: Any) -> int:
    """How many people the trained network assigns to their own group."""
    with torch.no_grad():
        found = model(data.x, data.edge_index).argmax(1)
    return int((found == data.y).sum())
