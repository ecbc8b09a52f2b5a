"""Small graphs with one oneDNN partition each, which `costs.py` measures."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Function = Callable[..., Any]


class Graph(nn.Module):
    """A function of a tensor and of named layers, as a module."""

    def __init__(self, function: Function, **layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleDict(layers)
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x, **self.layers)


@dataclass(frozen=True)
class Case:
    """A graph that represents partitions of `family` in `place` within these limits (0: none)."""

    family: str
    place: str
    max_M: int
    max_work: int
    make: Callable[[], tuple[nn.Module, Tensor]]


def _conv(channels: tuple[int, ...], size: int, kernel: int = 3, groups: int = 1) -> Any:
    convs = [
        nn.Conv2d(source, to, kernel, padding=kernel // 2, groups=groups)
        for source, to in pairwise(channels)
    ]
    return _chain(F.relu, convs), torch.randn(1, channels[0], size, size)


def _linear(rows: int, widths: tuple[int, ...]) -> Any:
    linears = [nn.Linear(K, N) for K, N in pairwise(widths)]
    return _chain(F.gelu, linears), torch.randn(rows, widths[0])


def _chain(activation: Function, layers: list[Any]) -> nn.Module:
    def run(x: Tensor, **layers: nn.Module) -> Tensor:
        for layer in layers.values():
            x = activation(layer(x))
        return x

    return Graph(run, **{f"layer{number}": layer for number, layer in enumerate(layers)})


def _image(function: Function, channels: int, size: int, convs: int) -> Any:
    layers = {name: nn.Conv2d(channels, channels, 1) for name in "abc"[:convs]}
    return Graph(function, **layers), torch.randn(1, channels, size, size)


def _rows(function: Function, rows: int, K: int, linears: int) -> Any:
    layers = {name: nn.Linear(K, K) for name in "abcd"[:linears]}
    return Graph(function, **layers), torch.randn(1, rows, K)


def _attention(x: Tensor, q: Function, k: Function, v: Function, heads: int = 12) -> Tensor:
    def split(t: Tensor) -> Tensor:
        return t.view(*t.shape[:2], heads, -1).transpose(1, 2)

    result = F.scaled_dot_product_attention(split(q(x)), split(k(x)), split(v(x)))
    return result.transpose(1, 2).flatten(2)


def _same(x: Tensor) -> Tensor:
    return x


def _norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:])


# Place, largest work, and the shapes.
_CONVOLUTIONS: tuple[tuple[str, int, tuple[tuple[Any, ...], ...]], ...] = (
    ("alone", 10**6, (((16, 16), 8), ((64, 64), 14, 1), ((64, 64), 14, 3, 64))),
    ("alone", 10**8, (((64, 64), 28), ((96, 96), 56, 3, 96), ((128, 256), 28, 1))),
    ("alone", 0, (((64, 64), 112), ((256, 256), 28), ((512, 2048), 14, 1))),
    ("chain", 10**6, (((16, 16, 16), 8), ((64, 64, 64), 14, 1), ((64, 64, 64, 64), 14, 3, 64))),
    ("chain", 0, (((64, 64, 64), 28), ((128, 512, 128), 28, 1), ((256, 256, 256), 14))),
)

# Place, largest number of rows, largest work, and the shapes.
_PRODUCTS: tuple[tuple[str, int, int, tuple[tuple[Any, ...], ...]], ...] = (
    ("alone", 0, 10**5, ((1, (128, 128)), (8, (64, 64)), (32, (48, 48)))),
    ("alone", 1, 0, ((1, (768, 768)), (1, (768, 3072)), (1, (4096, 4096)))),
    ("alone", 4, 0, ((2, (768, 768)), (4, (768, 3072)))),
    ("alone", 16, 0, ((8, (768, 768)), (16, (768, 3072)), (16, (256, 256)))),
    ("alone", 0, 0, ((32, (768, 768)), (128, (768, 3072)), (1024, (512, 512)))),
    ("chain", 0, 10**5, ((1, (128, 128, 128)), (8, (64, 64, 64, 64)))),
    ("chain", 1, 0, ((1, (768, 3072, 768)), (1, (768, 768, 768)), (1, (4096, 4096, 1000)))),
    ("chain", 4, 0, ((2, (768, 3072, 768)), (4, (768, 768, 768)))),
    ("chain", 16, 0, ((8, (768, 3072, 768)), (16, (768, 768, 768)), (16, (256, 256, 256)))),
    ("chain", 0, 0, ((32, (768, 3072, 768)), (128, (768, 3072, 768)), (384, (768, 768, 768)))),
)

# Sine and cosine represent ops that Inductor runs and would fuse, because oneDNN has neither.


def _places(op: Function) -> dict[str, tuple[int, Function]]:
    """The places where an op may stand; each has a number of layers and a function."""
    return {
        "alone": (0, lambda x: torch.cos(op(torch.sin(x)))),
        "beside": (1, lambda x, a: torch.sin(op(a(x)))),
        "between": (2, lambda x, a, b: b(op(a(x)))),
    }


def _places_of_attention(heads: Function) -> dict[str, tuple[int, Function]]:
    return {
        "alone": (0, lambda x: torch.cos(heads(torch.sin(x), _same, _same, _same))),
        "beside": (3, lambda x, a, b, c: torch.sin(heads(x, a, b, c))),
        "between": (4, lambda x, a, b, c, d: d(heads(x, a, b, c))),
    }


def _places_read_twice(op: Function) -> dict[str, tuple[int, Function]]:
    """Places for an op that would join the layer's partition if it were the layer's only reader."""
    return {
        "alone": (0, lambda x: torch.cos(op(torch.sin(x)))),
        "beside": (1, lambda x, a: torch.sin(op(h := a(x))) + torch.sin(h)),
        "between": (3, lambda x, a, b, c: b(op(h := a(x))) + c(h)),
    }


_IN_ROWS: tuple[tuple[str, Function, Function], ...] = (
    ("softmax", _places, lambda x: torch.softmax(x, -1)),
    ("layer_norm", _places, _norm),
    ("reduction", _places, lambda x: x.sum(1, keepdim=True)),
    ("attention", _places_of_attention, _attention),
)
_IN_IMAGES: tuple[tuple[str, Function, Function], ...] = (
    ("pool", _places, lambda x: F.max_pool2d(x, 3, 2, 1)),
    ("elementwise", _places_read_twice, torch.tanh),
    ("elementwise", _places_read_twice, lambda x: x * torch.sigmoid(x) + x),
    ("elementwise", _places_read_twice, lambda x: torch.sqrt(torch.abs(x) + x * x)),
)
_ROWS = (16, 128, 384)
_IMAGES = ((64, 56), (256, 14))


def cases() -> Iterator[Case]:
    """Yield all cases, grouped by family, smaller limits first."""
    for place, max_work, shapes in _CONVOLUTIONS:
        for shape in shapes:
            yield Case("convolution", place, 0, max_work, partial(_conv, *shape))
    for place, max_M, max_work, shapes in _PRODUCTS:
        for shape in shapes:
            yield Case("product", place, max_M, max_work, partial(_linear, *shape))
    for family, places, op in _IN_ROWS:
        for place, (layers, function) in places(op).items():
            for rows in _ROWS:
                make = partial(_rows, function, rows, 768, layers)
                yield Case(family, place, 0, 0, make)
    for family, places, op in _IN_IMAGES:
        for place, (layers, function) in places(op).items():
            for channels, size in _IMAGES:
                make = partial(_image, function, channels, size, layers)
                yield Case(family, place, 0, 0, make)
