"""Models by name, for benchmarks that give one to a process of its own.

`resnet18-int8` is the convert_fx model of resnet18; other names are those of `_float_models`.
"""

from torch import Tensor, nn

from benchmarks import _torchvision
from benchmarks._quantize import calibrate, convert
from benchmarks.models import _float_models

INT8 = "-int8"

_TOKENS = 128


def build(name: str) -> nn.Module:
    """`name` in eval mode with seeded random weights; of int8 the convert_fx model."""
    if not name.endswith(INT8):
        return _float_models.build(name)
    built = _torchvision.build(name.removesuffix(INT8))
    return convert(calibrate(built, [inputs(name, 1)]), "x86", plugin=True)


def inputs(name: str, batch: int) -> Tensor:
    """A batch for `name`: images of its size, or rows of 128 tokens."""
    return _float_models.inputs(name.removesuffix(INT8), batch, _TOKENS)


def check(name: str) -> None:
    """Raises ValueError where there is no such model."""
    _float_models.check(name.removesuffix(INT8))
