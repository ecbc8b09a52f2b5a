"""GPTQ and AWQ checkpoints of random layers, written word by word from their definitions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

IN, HIDDEN, OUT = 64, 96, 64


class Net(nn.Module):
    """Two linear layers to quantize, one that is not, and other tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(IN, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN)
        self.blocks = nn.ModuleList([nn.ModuleDict({"second": nn.Linear(HIDDEN, OUT, bias=False)})])
        self.head = nn.Linear(OUT, 8)
        self.register_buffer("shift", torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.norm(torch.relu(self.first(x)))
        result: Tensor = self.head(self.blocks[0]["second"](hidden)) + self.shift
        return result


LAYERS = ("first", "blocks.0.second")


@dataclass
class Layer:
    """A quantized layer; codes and zero points count from 0."""

    codes: Tensor  # (N, K)
    zero_points: Tensor  # (N, groups)
    scales: Tensor  # (N, groups), float16
    group_of: Tensor  # (K,)

    def weight(self) -> Tensor:
        zeros, scales = self.zero_points[:, self.group_of], self.scales[:, self.group_of]
        return (self.codes - zeros).float() * scales.float()


def random_layer(N: int, K: int, bits: int, group: int, act_order: bool) -> Layer:
    groups = K // group
    group_of = torch.arange(K) // group
    return Layer(
        torch.randint(0, 1 << bits, (N, K)),
        torch.randint(0, 1 << bits, (N, groups)),
        (torch.rand(N, groups) + 0.1).half(),
        group_of[torch.randperm(K)] if act_order else group_of,
    )


def packed_words(integers: Tensor, bits: int) -> Tensor:
    """Each column's integers one after another, from the lowest bit on."""
    K, N = integers.shape
    words = torch.zeros(K * bits // 32, N, dtype=torch.int64)
    for k in range(K):
        for bit in range(bits):
            at = k * bits + bit
            words[at // 32] |= (integers[k] >> bit & 1) << at % 32
    return torch.where(words >= 1 << 31, words - (1 << 32), words).to(torch.int32)


def gptq_tensors(layer: Layer, bits: int, checkpoint_format: str = "gptq") -> dict[str, Tensor]:
    stored = (layer.zero_points - int(checkpoint_format == "gptq")) % (1 << bits)
    return {
        "qweight": packed_words(layer.codes.t(), bits),
        "qzeros": packed_words(stored, bits).t().contiguous(),
        "scales": layer.scales.t().contiguous(),
        "g_idx": layer.group_of.to(torch.int32),
    }


def awq_tensors(layer: Layer) -> dict[str, Tensor]:
    def words(integers: Tensor) -> Tensor:  # (N, rows)
        by_word = integers.view(-1, 8, integers.shape[1])[:, [0, 2, 4, 6, 1, 3, 5, 7]]
        return packed_words(by_word.reshape(integers.shape), 4).t().contiguous()

    return {
        "qweight": words(layer.codes),
        "qzeros": words(layer.zero_points),
        "scales": layer.scales.t().contiguous(),
    }


def all_tensors(net: Net, quantized: dict[str, dict[str, Tensor]]) -> dict[str, Tensor]:
    """The tensors of `net`, with those of `quantized` in place of weights."""
    tensors = {
        name: value for name, value in net.state_dict().items()
        if name not in {f"{layer}.weight" for layer in quantized}
    }  # fmt: skip
    for name, parts in quantized.items():
        tensors.update({f"{name}.{part}": value for part, value in parts.items()})
    return tensors


def write(path: Path, tensors: dict[str, Tensor]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: value.clone().contiguous() for name, value in tensors.items()}, path)
    return path
