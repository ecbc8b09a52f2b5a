"""A small BERT that reads scikit-learn's digits: 64 pixels are 64 tokens. Two examples train it."""

from collections.abc import Iterator

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from examples.minilm.bert import Bert, BertConfig

CONFIG = BertConfig(vocabulary=17, positions=64, width=64, layers=2, heads=2, inner_width=256)
BATCH = 64


class DigitsBert(nn.Module):
    """Pixels (N x 64, int64 of 0 to 16) to scores of the ten digits."""

    def __init__(self) -> None:
        super().__init__()
        self.bert = Bert(CONFIG)
        self.classify = nn.Linear(CONFIG.width, 10)

    @property
    def layers(self) -> nn.ModuleList:
        """BERT's layers."""
        layers: nn.ModuleList = self.bert.encoder["layer"]  # type: ignore[assignment]
        return layers

    def forward(self, pixels: Tensor) -> Tensor:
        scores: Tensor = self.classify(self.bert(pixels).mean(1))
        return scores


def network() -> DigitsBert:
    """The untrained model, with the same weights in every process."""
    torch.manual_seed(0)
    return DigitsBert()


def batches(steps: int) -> Iterator[tuple[Tensor, Tensor]]:
    """`steps` batches of pixels and labels, the same in every process."""
    pixels, labels = _digits()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    for step in range(steps):
        picked = order[step * BATCH % (len(order) - BATCH) :][:BATCH]
        yield pixels[picked], labels[picked]


def held_out() -> tuple[Tensor, Tensor]:
    """The last images, to look at after training."""
    pixels, labels = _digits()
    return pixels[-BATCH:], labels[-BATCH:]


def _digits() -> tuple[Tensor, Tensor]:
    found = load_digits()
    return torch.from_numpy(found.data).long(), torch.from_numpy(found.target).long()


def train(model: nn.Module, steps: int, rank: int = 0, world: int = 1) -> list[Tensor]:
    """Trains on this process's share of each batch; returns the losses of the share."""
    # With a small eps, Adam would turn rounding errors of gradients near zero into whole steps.
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-4)
    losses = []
    for pixels, labels in batches(steps):
        share = slice(rank * BATCH // world, (rank + 1) * BATCH // world)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(pixels[share]), labels[share])
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses
