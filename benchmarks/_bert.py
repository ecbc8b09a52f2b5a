"""BERT encoders with random weights, and random token numbers as their input."""

from dataclasses import replace

import torch
from torch import Tensor

from examples.minilm.bert import MINILM_L6, Bert, BertConfig

_SEED = 2024

CONFIGS: dict[str, BertConfig] = {
    "bert-base": BertConfig(),
    "minilm-l6": MINILM_L6,
    # For tests of the benchmarks.
    "bert-tiny": replace(BertConfig(), vocabulary=100, width=32, layers=2, heads=2, inner_width=64),
}


def build(name: str, layers: int | None = None) -> Bert:
    """Builds `name` in eval mode, with the same random weights in every process.

    `layers` limits the number of layers; None means all of them.
    """
    config = CONFIGS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        return Bert(replace(config, layers=layers or config.layers)).eval()


def tokens(name: str, batch: int, length: int) -> Tensor:
    """Random token numbers, batch x length."""
    generator = torch.Generator().manual_seed(_SEED)
    return torch.randint(CONFIGS[name].vocabulary, (batch, length), generator=generator)
