"""Workloads of the allocator benchmark: programs that allocate and free large tensors."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks import _torchvision

Step = Callable[[], object]

_NODES, _EDGES, _WIDTH = 131_072, 4_194_304, 64


def index_select() -> Step:
    """Gathers 4 M rows of 64 floats into a new tensor of 1 GiB."""
    src, index = torch.randn(_NODES, _WIDTH), torch.randint(0, _NODES, (_EDGES,))
    return lambda: src.index_select(0, index)


def index_select_into() -> Step:
    """The same gather into an existing tensor."""
    src, index = torch.randn(_NODES, _WIDTH), torch.randint(0, _NODES, (_EDGES,))
    dst = torch.empty(_EDGES, _WIDTH)
    return lambda: torch.index_select(src, 0, index, out=dst)


class GraphConvolution(nn.Module):
    """PyG's GCNConv as it computes on a list of edges: gather, weigh, scatter."""

    def __init__(self, source: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(source, width)

    def forward(self, x: Tensor, edges: Tensor, weights: Tensor) -> Tensor:
        x = self.linear(x)
        messages = x.index_select(0, edges[0]) * weights[:, None]
        index = edges[1][:, None].expand_as(messages)
        return torch.zeros_like(x).scatter_add(0, index, messages)


def gcn_training() -> Step:
    """A training step of a GCN of two layers on 131,072 nodes and 1 M edges."""
    edges = torch.randint(0, _NODES, (2, _EDGES // 4))
    weights = torch.rand(edges.shape[1])
    x, target = torch.randn(_NODES, _WIDTH), torch.randint(0, 8, (_NODES,))
    first, second = GraphConvolution(_WIDTH, _WIDTH), GraphConvolution(_WIDTH, 8)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()])

    def step() -> None:
        optimizer.zero_grad()
        hidden = F.dropout(first(x, edges, weights).relu(), 0.5)
        F.cross_entropy(second(hidden, edges, weights), target).backward()
        optimizer.step()

    return step


def resnet50() -> Step:
    """resnet50, fp32, 32 images."""
    model, x = _torchvision.build("resnet50"), _torchvision.images("resnet50", 32)

    def step() -> None:
        with torch.inference_mode():
            model(x)

    return step


def _encoder(layers: int) -> nn.Module:
    layer = nn.TransformerEncoderLayer(768, 12, 3072, 0.0, "gelu", batch_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


def bert() -> Step:
    """An encoder of BERT-base's shape, fp32, 8 sequences of 128 tokens."""
    model, x = _encoder(12).eval(), torch.randn(8, 128, 768)

    def step() -> None:
        with torch.no_grad():
            model(x)

    return step


def bert_training() -> Step:
    """A training step of BERT-base's shape with 4 of its layers."""
    model, x = _encoder(4).train(), torch.randn(8, 128, 768)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


WORKLOADS: dict[str, Callable[[], Step]] = {
    "index_select": index_select,
    "index_select out": index_select_into,
    "gcn training": gcn_training,
    "resnet50 batch 32": resnet50,
    "bert batch 8": bert,
    "bert training batch 8": bert_training,
}
