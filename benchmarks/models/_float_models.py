"""The models of the floating-point benchmarks: CNNs and text encoders."""

import argparse
from collections.abc import Sequence

from torch import Tensor, nn

from benchmarks import _bert, _torchvision
from benchmarks._arguments import add_checked_names, check_known, positive

VISION = ("resnet50", "mobilenet_v2", "densenet121", "efficientnet_b0", "vit_b_16")
TEXT = ("bert-base", "minilm-l6")
ALL = VISION + TEXT


def build(name: str) -> nn.Module:
    """`name` in eval mode with seeded random weights."""
    return _bert.build(name) if name in _bert.CONFIGS else _torchvision.build(name)


def inputs(name: str, batch: int, length: int) -> Tensor:
    """A batch for `name`: images of its size, or rows of `length` tokens."""
    if name in _bert.CONFIGS:
        return _bert.tokens(name, batch, length)
    return _torchvision.images(name, batch)


def check(name: str) -> None:
    """Raises ValueError if there is no such model."""
    if name not in _bert.CONFIGS:
        check_known([name], (*TEXT, *(model.name for model in _torchvision.ALL)), "model")


def add_models(parser: argparse.ArgumentParser, default: Sequence[str]) -> None:
    """Adds --models."""
    shown = f"models of fp32 or int8_fx (default: {','.join(default)})"
    add_checked_names(parser, "--models", check, default=list(default), help=shown)


def add_sequence(parser: argparse.ArgumentParser) -> None:
    """Adds --sequence."""
    parser.add_argument(
        "--sequence", type=positive, default=128, help="tokens per text (default: 128)"
    )
