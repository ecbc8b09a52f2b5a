"""A small model that returns a dict and takes a number as an additional argument."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from compile._compiled import randomized


class Net(nn.Module):
    """A convolution with batch norm and SiLU, a pool and a linear layer, all in one region."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.linear = nn.Linear(16, 10)

    def forward(self, x: Tensor, scale: float = 1.0) -> dict[str, Tensor]:
        """Return scores, N x 10, times `scale`, of N x 3 x 12 x 12."""
        x = F.silu(self.norm(self.conv(x)))
        return {"scores": self.linear(F.adaptive_avg_pool2d(x, 1).flatten(1)) * scale}


def net() -> Net:
    """Return the model in eval mode, the same each time."""
    torch.manual_seed(0)
    made = randomized(Net()).eval()
    assert isinstance(made, Net)
    return made


def image(batch: int = 2) -> Tensor:
    """Return its inputs, the same each time."""
    torch.manual_seed(1)
    return torch.randn(batch, 3, 12, 12)
