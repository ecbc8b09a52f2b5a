"""Writes qconv.csv: the distinct convolutions of the benchmarked models.

Run as `python -m benchmarks.shapes.collect` from a checkout's root after changing the models.
"""

from dataclasses import astuple
from functools import partial
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn

from benchmarks._torchvision import MODELS, build, images
from benchmarks.shapes import ConvShape, write_conv_shapes


def main() -> None:
    """Runs every model once and writes the table in the order in which layers run."""
    found: dict[tuple[Any, ...], ConvShape] = {}
    for model in track(MODELS, "models", console=Console(stderr=True)):
        for shape in shapes_of(build(model.name), images(model.name, 1), model.name):
            found.setdefault(astuple(shape)[1:], shape)
    print(f"{len(found)} shapes in {write_conv_shapes(list(found.values()))}")


def shapes_of(model: nn.Module, x: Tensor, name: str) -> list[ConvShape]:
    """The convolutions that `model` runs on `x`, in order, named `name:layer`."""
    shapes: list[ConvShape] = []
    hooks = [
        module.register_forward_hook(partial(_record, shapes, f"{name}:{path}"))
        for path, module in model.named_modules()
        if isinstance(module, nn.Conv2d)
    ]
    with torch.inference_mode():
        model(x)
    for hook in hooks:
        hook.remove()
    return shapes


def _record(
    shapes: list[ConvShape], name: str, module: nn.Conv2d, inputs: tuple[Tensor], _: Tensor
) -> None:
    if module.padding_mode != "zeros" or isinstance(module.padding, str):
        return
    n, ic, h, w = inputs[0].shape
    (kh, kw), (sh, sw) = module.kernel_size, module.stride
    (ph, pw), (dh, dw) = module.padding, module.dilation
    oc, groups = module.out_channels, module.groups
    shapes.append(ConvShape(name, n, ic, h, w, oc, kh, kw, sh, sw, ph, pw, dh, dw, groups))


if __name__ == "__main__":
    main()
