"""Patterns of several layers, and of layers with ops that are not elementwise."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from compile._compiled import Net, Net2
from compile._patterns import Nothing, Pattern, conv, image, partitions

_NO_THREE = Nothing("X86InductorQuantizer has no convolutions of three dimensions")
_NO_TRANSPOSED = Nothing("X86InductorQuantizer has no transposed convolutions")
_FOLDED = Nothing("prepare_pt2e folds a norm into the layer before it: the row without it")
_PRODUCTS_STAY = Nothing("convert_fx leaves products of two activations in float")
_norm = partial(nn.BatchNorm2d, 16)
_pointwise = partial(nn.Conv2d, 16, 16, 1)
_FLOATS = Nothing("all of it is float here too")


def _pattern(
    name: str,
    function: Any,
    sizes: Any,
    floats: str,
    lowered: str | Nothing,
    pt2e: str | Nothing,
    **layers: Any,
) -> Pattern:
    """Return a pattern of `function`, with new layers and one or two inputs."""
    net = Net if len(sizes) == 1 else Net2
    return Pattern(
        name,
        lambda: net(function, **{key: make() for key, make in layers.items()}),
        sizes,
        partitions(floats),
        lowered if isinstance(lowered, Nothing) else partitions(lowered),
        pt2e if isinstance(pt2e, Nothing) else partitions(pt2e),
    )


def _linear(source: int = 24, to: int = 24, **options: Any) -> Any:
    return lambda: nn.Linear(source, to, **options)


def _residual(self: Any, x: Tensor) -> Tensor:
    y = F.relu(self.a(x))
    return self.d(F.relu(self.c(F.relu(self.b(y))) + self.pair(y)))


def _squeeze_and_excite(self: Any, x: Tensor) -> Tensor:
    y = self.a(x)
    return self.b(y * torch.sigmoid(self.excite(F.adaptive_avg_pool2d(y, 1))))


def _gate_by_what_was_before(self: Any, x: Tensor) -> Tensor:
    y = F.relu(self.a(x))
    return self.d(torch.sigmoid(self.c(F.relu(self.b(y)))) * y)


def shuffle(self: Any, x: Tensor) -> Tensor:
    a, b = x.chunk(2, 1)
    y = torch.cat([a, F.relu(self.a(b))], 1)
    n, c, h, w = y.shape
    y = y.view(n, 2, c // 2, h, w).transpose(1, 2).contiguous().view(n, c, h, w)
    c, d = y.chunk(2, 1)
    return torch.cat([c, self.b(d)], 1)


def _four_layers_before_torchs_own_pool(self: Any, x: Tensor, y: Tensor) -> Tensor:
    x = F.relu(self.b(F.relu(self.a(x))))
    y = F.relu(self.d(F.relu(self.c(y))))
    return F.adaptive_avg_pool2d(x + y, (5, 7))


def _crossed(self: Any, x: Tensor) -> Tensor:
    y = x * self.b(self.a(x)) + x
    return x * self.d(self.c(y)) + y


def _permuted(self: Any, x: Tensor, y: Tensor) -> Tensor:
    z = self.a(x).permute(0, 3, 1, 2)
    return self.b(z) + (z + y)


def _conv_and_its_function(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    y = self.a(x)
    return y, F.relu(y)


def _classify(self: Any, x: Tensor) -> Tensor:
    pooled = self.pair(F.adaptive_avg_pool2d(self.pair(F.relu(self.a(x))), 1))
    return self.b(self.pair(torch.flatten(pooled, 1)))


def _ffn(self: Any, x: Tensor) -> Tensor:
    return self.second(self.b(F.gelu(self.a(self.first(x)))) + x)


_CONVS = {"a": conv, "b": conv, "c": conv, "d": conv}
_PAIR = {"pair": nn.Identity}

LAYERS = [
    _pattern(
        "convolution",
        lambda self, x: self.a(x),
        (image(),),
        "Convolution",
        "quantize q_conv dequantize",
        "quantize q_conv",
        a=conv,
    ),
    _pattern(
        "convolution of one dimension",
        lambda self, x: F.relu(self.a(x)),
        ((2, 8, 21),),
        "Convolution+ReLU",
        "quantize q_conv dequantize",
        "quantize q_conv",
        a=lambda: nn.Conv1d(8, 16, 3, stride=2, padding=1),
    ),
    _pattern(
        "convolution of three dimensions",
        lambda self, x: F.relu(self.a(x)),
        ((2, 4, 5, 6, 7),),
        "Convolution+ReLU",
        "quantize q_conv dequantize",
        _NO_THREE,
        a=lambda: nn.Conv3d(4, 8, 3, padding=1),
    ),
    _pattern(
        "transposed convolution, silu",
        lambda self, x: F.silu(self.a(x)),
        (image(),),
        "ConvTranspose+Sigmoid+Multiply",
        "quantize q_conv dequantize Sigmoid+Multiply",
        _NO_TRANSPOSED,
        a=lambda: nn.ConvTranspose2d(16, 8, 3, stride=2),
    ),
    _pattern(
        "transposed convolution, relu, convolution",
        lambda self, x: self.b(F.relu(self.a(x))),
        (image(),),
        "ConvTranspose+ReLU Convolution",
        "quantize q_conv q_conv dequantize",
        _NO_TRANSPOSED,
        a=lambda: nn.ConvTranspose2d(16, 16, 3, stride=2),
        b=conv,
    ),
    _pattern(
        "one convolution of two images",
        lambda self, x, y: self.pair(torch.cat([self.pair(self.a(x)), self.pair(self.a(y))], 1)),
        (image(), image()),
        "Convolution Convolution Concat",
        "quantize q_conv quantize q_conv q_concat dequantize",
        "quantize q_conv quantize q_conv q_concat dequantize",
        a=conv,
        **_PAIR,
    ),
    _pattern(
        "linear layers",
        lambda self, x: self.b(self.a(x)),
        ((5, 24),),
        "MatMul MatMul",
        "quantize q_linear q_linear dequantize",
        "quantize q_linear q_linear",
        a=_linear(24, 40),
        b=_linear(40, 8, bias=False),
    ),
    _pattern(
        "product of two values",
        lambda self, x, y: torch.bmm(self.pair(x), self.pair2(y)),
        ((3, 5, 8), (3, 8, 7)),
        "MatMul",
        "quantize quantize dequantize dequantize MatMul",
        Nothing("X86InductorQuantizer leaves products of two values in float"),
        **_PAIR,
        pair2=nn.Identity,
    ),
    _pattern(
        "product of two values, sum",
        lambda self, x, y: F.relu(torch.addmm(y, x, x.t())),
        ((5, 24), (5, 5)),
        "MatMul+Add+ReLU",
        _PRODUCTS_STAY,
        _FLOATS,
    ),
    _pattern(
        "product of two values, quotient",
        lambda self, x, y: torch.bmm(x, x.transpose(-1, -2)) / y,
        ((3, 5, 8), (1,)),
        "MatMul+Divide",
        _PRODUCTS_STAY,
        _FLOATS,
    ),
]

NORMS = [
    _pattern(
        "convolution, norm",
        lambda self, x: self.norm(self.a(x)),
        (image(),),
        "Convolution",
        "quantize q_conv dequantize",
        _FOLDED,
        a=conv,
        norm=_norm,
    ),
    _pattern(
        "convolution without bias, norm, relu",
        lambda self, x: F.relu(self.norm(self.a(x))),
        (image(),),
        "Convolution+ReLU",
        "quantize q_conv dequantize",
        _FOLDED,
        a=lambda: conv(bias=False),
        norm=_norm,
    ),
    _pattern(
        "norm, relu, convolution",
        lambda self, x: self.a(F.relu(self.norm(x))),
        (image(),),
        "BatchNormInference+ReLU Convolution",
        "quantize q_batch_norm q_conv dequantize",
        "BatchNormInference+ReLU quantize q_conv",
        norm=_norm,
        a=conv,
    ),
    _pattern(
        "norm of a sum between convolutions",
        lambda self, x: self.b(F.relu(self.norm(self.a(x) + self.pair(x)))),
        (image(),),
        "Convolution+Add BatchNormInference+ReLU Convolution",
        "quantize q_conv q_batch_norm q_conv dequantize",
        "quantize q_conv dequantize Add BatchNormInference+ReLU quantize q_conv",
        norm=_norm,
        a=conv,
        b=conv,
        **_PAIR,
    ),
    _pattern(
        "linear layer, norm",
        lambda self, x: self.norm(self.a(x)),
        ((5, 24),),
        "MatMul+BatchNormInference",
        "quantize q_linear dequantize",
        _FOLDED,
        a=_linear(24, 40),
        norm=lambda: nn.BatchNorm1d(40),
    ),
    _pattern(
        "convolution, norm, linear layer, norm",
        lambda self, x: self.last(self.b(self.norm(self.a(x)))),
        (image(),),
        "Convolution MatMul+BatchNormInference",
        "quantize q_conv q_linear q_batch_norm dequantize",
        _FOLDED,
        a=conv,
        norm=_norm,
        b=_linear(12, 12),
        last=_norm,
    ),
    _pattern(
        "feed forward of an encoder",
        _ffn,
        ((5, 24),),
        "MatMul+GELU MatMul+Add",
        "quantize dequantize LayerNorm quantize q_linear q_linear dequantize",
        "quantize q_linear q_linear Add",
        a=_linear(24, 40),
        b=_linear(40, 24),
        first=lambda: nn.LayerNorm(24),
        second=lambda: nn.LayerNorm(24),
    ),
]

SUMS = [
    _pattern(
        "convolution, sum",
        lambda self, x, y: self.a(x) + self.pair(y),
        (image(), image()),
        "Convolution+Add",
        "quantize quantize q_conv dequantize",
        "quantize q_conv quantize dequantize Add",
        a=conv,
        **_PAIR,
    ),
    _pattern(
        "convolution, sum, relu",
        lambda self, x, y: F.relu(self.a(x) + self.pair(y)),
        (image(), image()),
        "Convolution+Add+ReLU",
        "quantize quantize q_conv dequantize",
        "quantize q_conv quantize dequantize Add+ReLU",
        a=conv,
        **_PAIR,
    ),
    _pattern(
        "convolution, product",
        lambda self, x, y: self.a(x) * y,
        (image(), image()),
        "Convolution+Multiply",
        "quantize quantize q_conv dequantize",
        "quantize q_conv Multiply",
        a=conv,
    ),
    _pattern(
        "residual",
        _residual,
        (image(),),
        "Convolution+ReLU Convolution+ReLU Convolution+Add+ReLU Convolution",
        "quantize q_conv q_conv q_conv q_conv dequantize",
        "quantize q_conv q_conv q_conv q_conv",
        **_CONVS,
        **_PAIR,
    ),
    _pattern(
        "sum of two convolutions, relu, convolution",
        lambda self, x, y: self.c(F.relu(self.a(x) + self.pair(self.b(y)))),
        (image(), image()),
        "Convolution Convolution+Add+ReLU Convolution",
        "quantize q_conv quantize q_conv q_conv dequantize",
        "quantize q_conv quantize q_conv q_conv",
        a=conv,
        b=lambda: conv(bias=False),
        c=conv,
        **_PAIR,
    ),
    _pattern(
        "sum of two convolutions with norms, relu, convolution with norm",
        lambda self, x, y: self.o(self.c(F.relu(self.m(self.a(x)) + self.n(self.b(y))))),
        (image(), image()),
        "Convolution Convolution+Add+ReLU Convolution",
        "quantize q_conv quantize q_conv q_conv dequantize",
        _FOLDED,
        a=conv,
        b=lambda: conv(bias=False),
        c=conv,
        m=_norm,
        n=_norm,
        o=_norm,
    ),
    _pattern(
        "linear layer, sum, linear layer",
        lambda self, x, y: self.b(self.a(x) + y),
        ((5, 24), (5, 40)),
        "MatMul+Add MatMul",
        "quantize quantize q_linear q_linear dequantize",
        "quantize q_linear Add quantize q_linear",
        a=_linear(24, 40),
        b=_linear(40, 8),
    ),
    _pattern(
        "products and sums of layers of low rank",
        _crossed,
        ((9, 24),),
        "MatMul MatMul+Multiply+Add MatMul MatMul+Multiply+Add",
        "quantize q_linear q_linear q_add q_linear q_linear q_add dequantize",
        "quantize q_linear q_linear Multiply+Add quantize q_linear q_linear Multiply+Add",
        a=_linear(24, 5, bias=False),
        b=_linear(5, 24),
        c=_linear(24, 5, bias=False),
        d=_linear(5, 24),
    ),
    _pattern(
        "a sum before a pool that is torch's",
        _four_layers_before_torchs_own_pool,
        (image(size=28), image(size=28)),
        "Convolution+ReLU Convolution+ReLU Convolution+ReLU Convolution+ReLU+Add",
        "quantize q_conv quantize q_conv q_conv q_conv q_avg_pool dequantize",
        "quantize q_conv quantize q_conv q_conv q_conv Add",
        **_CONVS,
    ),
    _pattern(
        "sums of what was permuted",
        _permuted,
        (image(), (2, 12, 16, 12)),
        "Convolution permute Add Convolution+Add",
        "quantize q_conv quantize permute q_add q_conv dequantize",
        "quantize q_conv permute quantize q_conv Add+Add",
        a=conv,
        b=lambda: nn.Conv2d(12, 12, 1),
    ),
]

OTHERS = [
    _pattern(
        "a function of what is returned too",
        _conv_and_its_function,
        (image(),),
        "Convolution ReLU",
        "quantize q_conv q_table dequantize dequantize",
        "quantize q_conv ReLU",
        a=conv,
    ),
    _pattern(
        "gate of squeeze and excite",
        _squeeze_and_excite,
        (image(),),
        "Convolution AvgPool Convolution+Sigmoid+Multiply Convolution",
        "quantize q_conv q_avg_pool q_conv q_mul q_conv dequantize",
        "quantize q_conv AvgPool quantize q_conv Sigmoid quantize q_conv",
        a=conv,
        excite=_pointwise,
        b=conv,
    ),
    _pattern(
        "gate by what was before",
        _gate_by_what_was_before,
        (image(),),
        "Convolution+ReLU Convolution+ReLU Convolution+Sigmoid+Multiply Convolution",
        "quantize q_conv q_conv q_conv q_conv dequantize",
        "quantize q_conv quantize q_conv q_conv Sigmoid+Multiply quantize q_conv",
        **_CONVS,
    ),
    _pattern(
        "pool of maxima",
        lambda self, x: self.b(self.pair(F.max_pool2d(self.pair(F.relu(self.a(x))), 3, 2, 1))),
        (image(),),
        "Convolution+ReLU MaxPool Convolution",
        "quantize q_conv q_max_pool q_conv dequantize",
        "quantize q_conv q_max_pool q_conv",
        a=conv,
        b=conv,
        **_PAIR,
    ),
    _pattern(
        "pool of means",
        lambda self, x: self.b(self.pair(F.avg_pool2d(self.pair(F.relu(self.a(x))), 3, 2, 1))),
        (image(),),
        "Convolution+ReLU AvgPool Convolution",
        "quantize q_conv q_avg_pool q_conv dequantize",
        "quantize q_conv q_avg_pool q_conv",
        a=conv,
        b=conv,
        **_PAIR,
    ),
    _pattern(
        "classifier",
        _classify,
        (image(),),
        "Convolution+ReLU AvgPool view MatMul",
        "quantize q_conv q_avg_pool view q_linear dequantize",
        "quantize q_conv q_avg_pool view q_linear",
        a=conv,
        b=_linear(16, 10),
        **_PAIR,
    ),
    _pattern(
        "concatenation",
        lambda self, x: self.c(torch.cat([self.a(x), self.b(x), x], 1)),
        (image(),),
        "Convolution Convolution Concat Convolution",
        "quantize q_conv q_conv q_concat q_conv dequantize",
        "quantize q_conv q_conv Concat quantize q_conv",
        a=conv,
        b=conv,
        c=lambda: nn.Conv2d(48, 8, 1),
    ),
    _pattern(
        "dense layer",
        lambda self, x: self.b(torch.cat([x, self.a(F.relu(self.norm(x)))], 1)),
        (image(),),
        "BatchNormInference+ReLU Convolution Concat Convolution",
        "quantize q_batch_norm q_conv q_concat q_conv dequantize",
        "BatchNormInference+ReLU quantize q_conv Concat quantize q_conv",
        norm=_norm,
        a=conv,
        b=lambda: nn.Conv2d(32, 8, 1),
    ),
    _pattern(
        "shuffled channels",
        shuffle,
        (image(32),),
        "Convolution+ReLU Concat view permute view view slice slice Convolution Concat",
        "quantize q_conv quantize q_shuffle q_shuffle q_conv q_concat dequantize",
        "quantize q_conv Concat view permute view view slice quantize q_conv slice Concat",
        a=_pointwise,
        b=_pointwise,
    ),
    _pattern(
        "a view of the result",
        lambda self, x: self.b(F.relu(self.a(x))).reshape(x.size(0), -1),
        (image(),),
        "Convolution+ReLU Convolution",
        "quantize q_conv q_conv view dequantize",
        "quantize q_conv q_conv",
        a=conv,
        b=conv,
    ),
]

PATTERNS = [*LAYERS, *NORMS, *SUMS, *OTHERS]
