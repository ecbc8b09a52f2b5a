"""A small graph convolution network on Arm, forward and backward, and its ops."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import cpuaccel


def _graph(nodes: int, edges: int) -> Tensor:
    index = torch.randint(0, nodes, (2, edges))
    return torch.sparse_coo_tensor(index, torch.rand(edges), (nodes, nodes)).coalesce()


class GCN(nn.Module):
    """Two layers of A x W."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(7, 16), nn.Linear(16, 3)

    def forward(self, x: Tensor, graph: Tensor) -> Tensor:
        x = torch.sparse.mm(graph, self.first(x)).relu()
        return torch.sparse.mm(graph, self.second(x))


def test_gcn_learns_as_with_a_dense_matrix() -> None:
    graph, x = _graph(50, 300), torch.randn(50, 7)
    model = GCN()
    cpuaccel.reset_stats()
    loss = model(x, graph.to_sparse_csr()).square().mean()
    loss.backward()
    found = [each.grad.clone() for each in model.parameters()]
    assert cpuaccel.stats()["calls"]["sparse_mm.cpuaccel"] > 0
    model.zero_grad()
    dense = graph.to_dense()
    hidden = (dense @ model.first(x)).relu()
    expected = (dense @ model.second(hidden)).square().mean()
    expected.backward()
    torch.testing.assert_close(loss, expected, atol=1e-5, rtol=1e-4)
    for mine, each in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(mine, each.grad, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
@pytest.mark.parametrize("columns", [1, 5, 16, 37])
def test_reductions(reduce: str, columns: int) -> None:
    index, src = torch.randint(0, 20, (200,)), torch.randn(200, columns)
    spread = index.unsqueeze(1).expand_as(src)
    found = torch.zeros(20, columns).scatter_reduce(0, spread, src, reduce, include_self=False)
    with cpuaccel.enabled(False):
        expected = torch.zeros(20, columns).scatter_reduce(
            0, spread, src, reduce, include_self=False
        )
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
