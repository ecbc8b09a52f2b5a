"""One decoding step of GPT-2: one token, and a cache of the keys and values of earlier tokens."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

_SEED = 2024


@dataclass(frozen=True)
class GptConfig:
    """Sizes of a GPT-2; the defaults are those of the smallest one (124 million weights)."""

    vocabulary: int = 50257
    positions: int = 1024
    width: int = 768
    layers: int = 12
    heads: int = 12


CONFIGS: dict[str, GptConfig] = {
    "gpt2": GptConfig(),
    # For tests of the benchmarks.
    "gpt2-tiny": GptConfig(vocabulary=100, positions=16, width=32, layers=2, heads=2),
}


class Cache(nn.Module):
    """Cache of the keys and values of `length` tokens, each N x heads x length x head width.

    The current token's key and value are written to the last position.
    """

    keys: Tensor
    values: Tensor

    def __init__(self, config: GptConfig, batch: int, length: int) -> None:
        super().__init__()
        sizes = (batch, config.heads, length, config.width // config.heads)
        self.register_buffer("keys", torch.randn(sizes))
        self.register_buffer("values", torch.randn(sizes))

    def forward(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        self.keys[:, :, -1:] = key
        self.values[:, :, -1:] = value
        return self.keys, self.values


class Attention(nn.Module):
    """Attention of one token over a cache of fixed length."""

    def __init__(self, config: GptConfig, batch: int, length: int) -> None:
        super().__init__()
        self.heads = config.heads
        self.c_attn = nn.Linear(config.width, 3 * config.width)
        self.c_proj = nn.Linear(config.width, config.width)
        self.cache = Cache(config, batch, length)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.c_attn(x).chunk(3, dim=-1)
        keys, values = self.cache(self._by_head(k), self._by_head(v))
        attended = nn.functional.scaled_dot_product_attention(self._by_head(q), keys, values)
        projected: Tensor = self.c_proj(attended.transpose(1, 2).flatten(2))
        return projected

    def _by_head(self, x: Tensor) -> Tensor:
        rows: Tensor = x.unflatten(-1, (self.heads, -1))
        return rows.transpose(1, 2)


class Block(nn.Module):
    """Pre-norm transformer block: attention, then two linear layers with GELU, both residual."""

    def __init__(self, config: GptConfig, batch: int, length: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.width)
        self.attn = Attention(config, batch, length)
        self.ln_2 = nn.LayerNorm(config.width)
        self.c_fc = nn.Linear(config.width, 4 * config.width)
        self.c_proj = nn.Linear(4 * config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        inner = nn.functional.gelu(self.c_fc(self.ln_2(x)), approximate="tanh")
        result: Tensor = x + self.c_proj(inner)
        return result


class GptStep(nn.Module):
    """Token numbers (N x 1, int64) to scores (N x 1 x vocabulary).

    Every call decodes the last position of the cache, so all calls do the same work.
    """

    def __init__(self, config: GptConfig, batch: int, length: int) -> None:
        super().__init__()
        self.position = length - 1
        self.wte = nn.Embedding(config.vocabulary, config.width)
        self.wpe = nn.Embedding(config.positions, config.width)
        self.h = nn.ModuleList(Block(config, batch, length) for _ in range(config.layers))
        self.ln_f = nn.LayerNorm(config.width)
        self.lm_head = nn.Linear(config.width, config.vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.wte(tokens) + self.wpe.weight[self.position]
        for block in self.h:
            x = block(x)
        scores: Tensor = self.lm_head(self.ln_f(x))
        return scores


def build(name: str, batch: int, length: int) -> GptStep:
    """Builds `name` in eval mode with a cache of `length` tokens for each of `batch` sequences.

    The weights are the same in every process.
    """
    config = CONFIGS[name]
    if not 0 < length <= config.positions:
        raise ValueError(f"length: expected 1 to {config.positions} tokens, got {length}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        return GptStep(config, batch, length).eval()


def tokens(name: str, batch: int) -> Tensor:
    """One random token number for each sequence, batch x 1."""
    generator = torch.Generator().manual_seed(_SEED)
    return torch.randint(CONFIGS[name].vocabulary, (batch, 1), generator=generator)


def bytes_read(model: GptStep, weight: int, other: int) -> int:
    """Least number of bytes that a step reads.

    It counts all weights of the layers, at `weight` bytes each, and the biases, norms and cache, at
    `other` bytes each. Each embedding contributes one row.
    """
    layers = [each for each in model.modules() if isinstance(each, nn.Linear | nn.LayerNorm)]
    numbers = [each for layer in layers for each in layer.parameters()]
    weights = sum(each.numel() for each in numbers if each.dim() == 2)
    rest = sum(each.numel() for each in numbers if each.dim() != 2)
    cache = sum(each.numel() for each in model.buffers())
    return weight * weights + other * (rest + cache)
