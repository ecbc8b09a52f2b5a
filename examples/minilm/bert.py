"""BERT's encoder in torch's own layers, with the parameter names of published checkpoints."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class BertConfig:
    """Sizes of a BERT; the defaults are BERT-base's."""

    vocabulary: int = 30522
    positions: int = 512
    width: int = 768
    layers: int = 12
    heads: int = 12
    inner_width: int = 3072
    norm_eps: float = 1e-12


MINILM_L6 = BertConfig(width=384, layers=6, inner_width=1536)


class Embeddings(nn.Module):
    """The sum of the embeddings of a token, its position and its segment (always the first)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocabulary, config.width)
        self.position_embeddings = nn.Embedding(config.positions, config.width)
        self.token_type_embeddings = nn.Embedding(2, config.width)
        self.LayerNorm = nn.LayerNorm(config.width, eps=config.norm_eps)

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1])
        embedded = self.word_embeddings(tokens) + self.token_type_embeddings.weight[0]
        normed: Tensor = self.LayerNorm(embedded + self.position_embeddings(places))
        return normed


class SelfAttention(nn.Module):
    """Scaled dot product attention, with linear layers for query, key and value."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.query = nn.Linear(config.width, config.width)
        self.key = nn.Linear(config.width, config.width)
        self.value = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        attended = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return attended.transpose(1, 2).flatten(2)


class Output(nn.Module):
    """A linear layer, then a norm of its sum with the block's input."""

    def __init__(self, inputs: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, config.width)
        self.LayerNorm = nn.LayerNorm(config.width, eps=config.norm_eps)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        normed: Tensor = self.LayerNorm(self.dense(x) + residual)
        return normed


class Layer(nn.Module):
    """Attention, then two linear layers with GELU between."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = nn.ModuleDict(
            {"self": SelfAttention(config), "output": Output(config.width, config)}
        )
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(config.width, config.inner_width)})
        self.output = Output(config.inner_width, config)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.attention["output"](self.attention["self"](x, mask), x)
        inner = nn.functional.gelu(self.intermediate["dense"](x))
        result: Tensor = self.output(inner, x)
        return result


class Bert(nn.Module):
    """Token numbers (N x length, int64) to features (N x length x width)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.embeddings = Embeddings(config)
        self.encoder = nn.ModuleDict(
            {"layer": nn.ModuleList(Layer(config) for _ in range(config.layers))}
        )

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """`mask` (N x length, bool) is true for tokens and false for padding; None: no padding."""
        x: Tensor = self.embeddings(tokens)
        seen = None if mask is None else mask[:, None, None, :]
        for layer in self.encoder["layer"]:  # type: ignore[union-attr]
            x = layer(x, seen)
        return x

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Loads a published checkpoint's tensors; those of its pooler are not used here."""
        own = self.state_dict().keys()
        absent = own - weights.keys()
        if absent:
            raise ValueError(f"weights: expected all of {len(own)} tensors, missing {min(absent)}")
        self.load_state_dict({name: weights[name] for name in own})
