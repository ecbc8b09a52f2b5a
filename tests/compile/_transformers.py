"""Transformers of a small width."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch.nn.functional as F
from torch import Tensor, nn

from cpuaccel import _native
from cpuaccel.compile.common import report

_module = _native.native()

needs_attention = pytest.mark.skipif(
    _module is None or _module.cpu_vendor() != "AuthenticAMD",
    reason="attention was measured on AMD CPUs only: see cpuaccel._C.cpu_vendor()",
)

WIDTH, HEADS = 48, 3


class Attention(nn.Module):
    """Attention with its projections."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.query, self.key, self.value, self.last = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.options = options

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Self-attention on `x` where `mask` allows it."""

        def heads(layer: nn.Module) -> Tensor:
            return layer(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)

        found = F.scaled_dot_product_attention(
            heads(self.query), heads(self.key), heads(self.value), attn_mask=mask, **self.options
        )
        return self.last(found.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """An encoder layer, with post-norms or, as in vision transformers, pre-norms."""

    def __init__(self, norm_first: bool) -> None:
        super().__init__()
        self.attention = Attention()
        self.up, self.down = nn.Linear(WIDTH, 80), nn.Linear(80, WIDTH)
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.norm_first = norm_first

    def forward(self, x: Tensor) -> Tensor:
        """Attention, then an MLP on each position separately."""
        if self.norm_first:
            x = x + self.attention(self.first(x))
            return x + self.down(F.gelu(self.up(self.second(x))))
        x = self.first(x + self.attention(x))
        return self.second(x + self.down(F.gelu(self.up(x))))


def kinds_of(found: report.Report) -> Counter[tuple[str, ...]]:
    """Count each partition, except views and copies."""
    return Counter(kinds for kinds in found.kinds() if kinds[0] not in ("view", "permute", "slice"))
