"""Models by name, for benchmarks that run each model in its own process.

`resnet18-int8` is the convert_fx model of resnet18; other names are those of `_float_models`.
"""

import argparse
from collections.abc import Sequence

from torch import Tensor, nn

from benchmarks import _torchvision
from benchmarks._arguments import add_checked_names
from benchmarks._quantize import calibrate, convert
from benchmarks.models import _float_models

INT8 = "-int8"

_TOKENS = 128


def build(name: str) -> nn.Module:
    """Builds `name` in eval mode with seeded random weights; "-int8" gives the convert_fx model."""
    if not name.endswith(INT8):
        return _float_models.build(name)
    built = _torchvision.build(name.removesuffix(INT8))
    return convert(calibrate(built, [inputs(name, 1)]), "x86", plugin=True)


def inputs(name: str, batch: int) -> Tensor:
    """A batch for `name`: images of its size, or rows of 128 tokens."""
    return _float_models.inputs(name.removesuffix(INT8), batch, _TOKENS)


def add_models(parser: argparse.ArgumentParser, default: Sequence[str]) -> None:
    """Adds `--models`."""
    add_checked_names(
        parser,
        "--models",
        lambda name: _float_models.check(name.removesuffix(INT8)),
        default=list(default),
        help="models of fp32 or int8_fx; NAME-int8 is a convert_fx model"
        f" (default: {','.join(default)})",
    )
