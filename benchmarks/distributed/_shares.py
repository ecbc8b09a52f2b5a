"""One socket's share of a transformer's layers under tensor parallelism, as plans of cpuaccel.

A socket has 1/p of the heads and of the inner features: the first products are divided by columns,
the second ones by rows. It computes all norms. The collectives are left out.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks._timing import Contender, side_by_side

_FROM_MEMORY = 300e6
"""Bytes of weights that are read in turn, more than the last-level cache holds: a socket's share of
one layer may fit in a cache, its share of the model does not."""


@dataclass(frozen=True)
class Model:
    """Sizes of a transformer, and of a call: `rows` tokens; a decoder has `cached` ones before."""

    name: str
    width: int
    inner: int
    heads: int
    layers: int
    rows: int
    cached: int = 0
    gated: bool = False

    @property
    def message(self) -> int:
        """Bytes of an all_reduce: rows x width floats. A layer has two."""
        return 4 * self.rows * self.width


MODELS = {
    each.name: each
    for each in (
        Model("bert-large-128", 1024, 4096, 16, 24, 128),
        Model("bert-large-384", 1024, 4096, 16, 24, 384),
        Model("decoder-1.3b-token", 2048, 5504, 16, 24, 1, cached=512, gated=True),
        Model("decoder-1.3b-prompt-512", 2048, 5504, 16, 24, 512, gated=True),
        # For tests of the benchmark.
        Model("tiny-token", 32, 64, 16, 2, 1, cached=4, gated=True),
        Model("tiny-8", 32, 64, 16, 2, 8),
    )
}


class Share(nn.Module):
    """A socket's share of one layer: rows x width to the same."""

    keys: Tensor
    values: Tensor

    def __init__(self, model: Model, sockets: int) -> None:
        super().__init__()
        width, inner, self.heads = model.width, model.inner // sockets, model.heads // sockets
        head = width // model.heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv = nn.ModuleList(nn.Linear(width, head * self.heads) for _ in range(3))
        self.out = nn.Linear(head * self.heads, width)
        self.gate = nn.Linear(width, inner) if model.gated else None
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.randn(1, self.heads, model.cached, head))

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norms[0](x)
        q, k, v = (
            each(normed).unflatten(-1, (self.heads, -1)).transpose(0, 1).unsqueeze(0)
            for each in self.qkv
        )
        if self.keys.shape[2]:
            k, v = torch.cat([self.keys, k], 2), torch.cat([self.values, v], 2)
        attended = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attended[0].transpose(0, 1).flatten(1))
        normed = self.norms[1](x)
        inner = self.up(normed) if self.gate else F.gelu(self.up(normed))
        if self.gate is not None:
            inner = F.silu(self.gate(normed)) * inner
        result: Tensor = x + self.down(inner)
        return result


def seconds_of_a_layer(model: Model, sockets: list[int], rounds: int) -> dict[int, float]:
    """Seconds of one socket's share of a layer in the fastest round, by the number of sockets.

    Raises:
        ValueError: the sockets do not divide the heads.
    """
    import cpuaccel

    contenders, counts = {}, {}
    x = torch.randn(model.rows, model.width)
    with torch.no_grad():
        for each in sockets:
            if model.heads % each:
                raise ValueError(f"{model.name}: {each} sockets do not divide {model.heads} heads")
            share = Share(model, each)
            size = sum(4 * weight.numel() for weight in share.parameters())
            counts[each] = min(model.layers, math.ceil(_FROM_MEMORY / size))
            stack = nn.Sequential(share, *(Share(model, each) for _ in range(counts[each] - 1)))
            plan = cpuaccel.optimize(stack.eval(), (x,), time_budget=0)
            contenders[str(each)] = Contender(lambda plan=plan: plan(x))
        samples = side_by_side(contenders, rounds=rounds)
    return {each: samples[str(each)].min / counts[each] for each in sockets}
