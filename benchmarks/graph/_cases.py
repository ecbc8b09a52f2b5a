"""Small graphs that have a partition of one family in one place, in sizes that stand for others."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Function = Callable[..., Any]


class Graph(nn.Module):
    """A function of a tensor and of the layers that it uses, by name."""

    def __init__(self, function: Function, **layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleDict(layers)
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x, **self.layers)


@dataclass(frozen=True)
class Case:
    """What stands for the partitions of `family` in `place` of up to `max_work` (0: any)."""

    family: str
    place: str
    max_work: int
    make: Callable[[], tuple[nn.Module, Tensor]]


def _conv(channels: tuple[int, ...], size: int, kernel: int = 3, groups: int = 1) -> Any:
    convs = [
        nn.Conv2d(source, to, kernel, padding=kernel // 2, groups=groups)
        for source, to in pairwise(channels)
    ]
    return _in_turn(F.relu, convs), torch.randn(1, channels[0], size, size)


def _linear(rows: int, widths: tuple[int, ...]) -> Any:
    linears = [nn.Linear(K, N) for K, N in pairwise(widths)]
    return _in_turn(F.gelu, linears), torch.randn(rows, widths[0])


def _in_turn(activation: Function, layers: list[Any]) -> nn.Module:
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


# Family, place, largest work of a layer, what makes it, and of what.
_LAYERS: tuple[tuple[str, str, int, Function, tuple[tuple[Any, ...], ...]], ...] = (
    (
        *("convolution", "alone", 10**6, _conv),
        (((16, 16), 8), ((64, 64), 14, 1), ((64, 64), 14, 3, 64)),
    ),
    (
        *("convolution", "alone", 10**8, _conv),
        (((64, 64), 28), ((96, 96), 56, 3, 96), ((128, 256), 28, 1)),
    ),
    (
        *("convolution", "alone", 0, _conv),
        (((64, 64), 112), ((256, 256), 28), ((512, 2048), 14, 1)),
    ),
    (
        *("convolution", "chain", 10**6, _conv),
        (((16, 16, 16), 8), ((64, 64, 64), 14, 1), ((64, 64, 64, 64), 14, 3, 64)),
    ),
    (
        *("convolution", "chain", 0, _conv),
        (((64, 64, 64), 28), ((128, 512, 128), 28, 1), ((256, 256, 256), 14)),
    ),
    (
        *("product", "alone", 10**5, _linear),
        ((1, (128, 128)), (8, (64, 64)), (32, (48, 48))),
    ),
    (
        *("product", "alone", 10**7, _linear),
        ((1, (768, 768)), (32, (256, 256)), (16, (768, 768))),
    ),
    (
        *("product", "alone", 0, _linear),
        ((128, (768, 768)), (128, (768, 3072)), (1024, (512, 512))),
    ),
    (
        *("product", "chain", 10**7, _linear),
        ((1, (768, 768, 768)), (32, (256, 256, 256)), (8, (64, 64, 64, 64))),
    ),
    (
        *("product", "chain", 0, _linear),
        ((128, (768, 3072, 768)), (384, (768, 768, 768)), (32, (768, 3072, 768))),
    ),
)

_IN_ROWS: tuple[tuple[str, str, int, Function], ...] = (
    ("softmax", "alone", 0, lambda x: torch.softmax(x, -1)),
    ("softmax", "beside", 1, lambda x, a: torch.softmax(a(x), -1)),
    ("softmax", "between", 2, lambda x, a, b: b(torch.softmax(a(x), -1))),
    ("layer_norm", "alone", 0, _norm),
    ("layer_norm", "beside", 1, lambda x, a: _norm(a(x))),
    ("layer_norm", "between", 2, lambda x, a, b: b(_norm(a(x)))),
    ("reduction", "alone", 0, lambda x: x.sum(1)),
    ("reduction", "beside", 1, lambda x, a: a(x).sum(1)),
    ("reduction", "between", 2, lambda x, a, b: b(a(x).sum(1, keepdim=True))),
    ("attention", "alone", 0, lambda x: _attention(x, _same, _same, _same)),
    ("attention", "beside", 3, lambda x, a, b, c: _attention(x, a, b, c)),
    ("attention", "between", 4, lambda x, a, b, c, d: d(_attention(x, a, b, c))),
)

_IN_IMAGES: tuple[tuple[str, str, int, Function], ...] = (
    ("pool", "alone", 0, lambda x: F.max_pool2d(x, 3, 2, 1)),
    ("pool", "beside", 1, lambda x, a: F.max_pool2d(a(x), 3, 2, 1)),
    ("pool", "between", 2, lambda x, a, b: b(F.max_pool2d(a(x), 3, 2, 1))),
    ("elementwise", "alone", 0, lambda x: torch.tanh(x)),
    ("elementwise", "beside", 1, lambda x, a: (h := a(x), torch.tanh(h))),
    # Read twice, so that it is no part of the layer before it.
    ("elementwise", "between", 3, lambda x, a, b, c: b(torch.tanh(h := a(x))) + c(h)),
)


def cases() -> Iterator[Case]:
    """Yield all cases, those of a family one after the other, smaller limits first."""
    for family, place, max_work, make, shapes in _LAYERS:
        for shape in shapes:
            yield Case(family, place, max_work, lambda m=make, s=shape: m(*s))  # type: ignore[misc]
    for family, place, layers, function in _IN_ROWS:
        for rows in (16, 128, 384):
            yield Case(
                family,
                place,
                0,
                lambda f=function, n=layers, r=rows: _rows(f, r, 768, n),  # type: ignore[misc]
            )
    for family, place, layers, function in _IN_IMAGES:
        for channels, size in ((64, 56), (256, 14)):
            yield Case(
                family,
                place,
                0,
                lambda f=function, n=layers, c=channels, s=size: _image(f, c, s, n),  # type: ignore[misc]
            )
