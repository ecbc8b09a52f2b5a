"""The ops of random models, each drawn for an existing value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from compile._random_graphs import Draw, Drawing, Step

_CONVS = {3: nn.Conv1d, 4: nn.Conv2d, 5: nn.Conv3d}
_TRANSPOSED = {3: nn.ConvTranspose1d, 4: nn.ConvTranspose2d, 5: nn.ConvTranspose3d}
_NORMS = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}


def _several(drawing: Drawing, dims: int, choices: tuple[int, ...]) -> tuple[int, ...]:
    """Return one number for each dimension, usually the same one."""
    if drawing.chance(0.7):
        return (drawing.dice.choice(choices),) * dims
    return tuple(drawing.dice.choice(choices) for _ in range(dims))


def _conv(drawing: Drawing, x: Tensor, kinds: dict[int, Any], **more: Any) -> nn.Module | None:
    if x.dim() not in kinds:
        return None
    dice, dims, channels = drawing.dice, x.dim() - 2, x.shape[1]
    groups = dice.choice([g for g in range(1, channels + 1) if channels % g == 0])
    if drawing.chance(0.5):
        groups = 1
    kernel = _several(drawing, dims, (1, 2, 3))
    dilation = _several(drawing, dims, (1, 1, 2))
    padding = tuple(dice.randint(0, (k - 1) * d) for k, d in zip(kernel, dilation, strict=True))
    reach = zip(x.shape[2:], padding, kernel, dilation, strict=True)
    if "output_padding" not in more and any(s + 2 * p < (k - 1) * d + 1 for s, p, k, d in reach):
        return None
    layer: nn.Module = kinds[x.dim()](
        channels,
        groups * dice.choice((1, 1, 2, 4)) if groups > 4 else groups * dice.choice((1, 4, 8)),
        kernel,
        padding=padding,
        dilation=dilation,
        groups=groups,
        bias=drawing.chance(0.7),
        **more,
    )
    if x.dim() == 4 and drawing.chance(0.2):
        layer = layer.to(memory_format=torch.channels_last)
    return layer


def _convolution(drawing: Drawing, x: Tensor) -> Step | None:
    stride = _several(drawing, max(x.dim() - 2, 1), (1, 1, 2))
    layer = _conv(drawing, x, _CONVS, stride=stride)
    if layer is None:
        return None
    if drawing.chance(0.4):
        norm = _NORMS[x.dim()](layer.out_channels)
        return Step("conv+norm", lambda s, v: s.norm(s.layer(v)), layer=layer, norm=norm)
    return Step("conv", lambda s, v: s.layer(v), layer=layer)


def _transposed(drawing: Drawing, x: Tensor) -> Step | None:
    stride = _several(drawing, max(x.dim() - 2, 1), (1, 2, 3))
    extra = tuple(drawing.dice.randrange(each) for each in stride)
    layer = _conv(drawing, x, _TRANSPOSED, stride=stride, output_padding=extra)
    return layer and Step("transposed", lambda s, v: s.layer(v), layer=layer)


def _conv_of_two(drawing: Drawing, x: Tensor) -> Step | None:
    """A convolution whose weights are computed in the graph."""
    if x.dim() != 4 or x.shape[2] < 2 or x.shape[3] < 2:
        return None
    weight = drawing.parameter((4, x.shape[1], 2, 2), 0.3)
    return Step("conv2", lambda s, v: F.conv2d(v, torch.tanh(s.weight)), weight=weight)


def _linear(drawing: Drawing, x: Tensor) -> Step:
    to = drawing.dice.choice((1, 4, 8, 17, 32))
    layer = nn.Linear(x.shape[-1], to, bias=drawing.chance(0.7))
    return Step("linear", lambda s, v: s.layer(v), layer=layer)


def _product(drawing: Drawing, x: Tensor) -> Step | None:
    if x.dim() < 2:
        return None
    way = drawing.dice.randrange(5)
    scale = x.shape[-1] ** -0.5
    if way == 0:
        return Step("x@xT", lambda s, v: scale * (v @ v.transpose(-1, -2)))
    if way == 1:
        return Step("xT@x", lambda s, v: v.transpose(-1, -2) @ v * scale)
    if way == 2:
        sizes = (*(x.shape[:-2] if drawing.chance(0.5) else ()), x.shape[-1], 6)
        weight = drawing.parameter(sizes, scale)
        return Step("x@w", lambda s, v: v @ s.weight, weight=weight)
    if way == 3:
        weight = drawing.parameter((5, x.shape[-2]), scale)
        return Step("w@x", lambda s, v: s.weight @ v, weight=weight)
    bias = drawing.parameter(drawing.dice.choice(((6,), (1, 6), (x.shape[-2], 6))))
    weight = drawing.parameter((x.shape[-1], 6), scale)
    if x.dim() > 2:
        return Step("x@w+b", lambda s, v: v @ s.weight + s.bias, weight=weight, bias=bias)
    return Step("addmm", lambda s, v: torch.addmm(s.bias, v, s.weight), weight=weight, bias=bias)


def _product_of_two(drawing: Drawing, x: Tensor) -> Step | None:
    if x.dim() < 2:
        return None
    other = drawing.dice.choice(drawing.like(x, [x.dim() - 2]))
    return Step("x@yT", lambda s, a, b: 0.3 * (a @ b.transpose(-1, -2)), other)


def _batch_norm(drawing: Drawing, x: Tensor) -> Step | None:
    if x.dim() not in _NORMS:
        return None
    norm = _NORMS[x.dim()](x.shape[1], affine=drawing.chance(0.8))
    return Step("batch_norm", lambda s, v: s.norm(v), norm=norm)


def _layer_norm(drawing: Drawing, x: Tensor) -> Step:
    count = drawing.dice.randint(1, min(2, x.dim()))
    layer = nn.LayerNorm(x.shape[-count:], elementwise_affine=drawing.chance(0.7))
    return Step("layer_norm", lambda s, v: s.layer(v), layer=layer)


def _softmax(drawing: Drawing, x: Tensor) -> Step:
    dim = drawing.dice.randrange(-x.dim(), x.dim())
    return Step("softmax", lambda s, v: torch.softmax(v, dim))


def _pool(drawing: Drawing, x: Tensor) -> Step | None:
    dims = x.dim() - 2
    if dims not in (1, 2, 3) or min(x.shape[2:]) < 2:
        return None
    dice = drawing.dice
    kernel = tuple(min(dice.choice((2, 2, 3)), size) for size in x.shape[2:])
    given: dict[str, Any] = {
        "stride": _several(drawing, dims, (1, 2, 2, 3)),
        "padding": tuple(dice.randint(0, each // 2) for each in kernel),
        "ceil_mode": drawing.chance(0.3),
    }
    if drawing.chance(0.5):
        pool: Any = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[dims - 1]
        name = "max_pool"
        if drawing.chance(0.2):
            kernel = (2,) * dims
            given.update(dilation=min(2, min(x.shape[2:]) - 1), padding=0)
    else:
        if dims == 3 and drawing.bf16:
            return None  # torch has no such op
        pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[dims - 1]
        name = "avg_pool"
        given["count_include_pad"] = drawing.chance(0.5)
        if dims > 1 and drawing.chance(0.1):
            given["divisor_override"] = 3
    return Step(name, lambda s, v: pool(v, kernel, **given))


def _global_pool(drawing: Drawing, x: Tensor) -> Step | None:
    dims = x.dim() - 2
    if dims not in (1, 2, 3):
        return None
    if drawing.chance(0.5):
        keep, places = drawing.chance(0.5), list(range(2, x.dim()))
        return Step("mean of images", lambda s, v: v.mean(places, keepdim=keep))
    pool: Any = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[dims - 1]
    to = drawing.dice.choice((1, 1, 2, 3))
    return Step("adaptive", lambda s, v: pool(v, to))


UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "abs": torch.abs,
    "clamp": lambda x: x.clamp(-0.5, 0.75),
    "clamp_min": lambda x: x.clamp_min(-0.25),
    "clamp_max": lambda x: x.clamp(max=0.5),
    "clamp_crossed": lambda x: x.clamp(0.5, -0.5),
    "hardtanh": F.hardtanh,
    "relu6": F.relu6,
    "elu": lambda x: F.elu(x, 0.7),
    "selu": F.selu,
    "exp": lambda x: torch.exp(x.clamp(max=2)),
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "log": lambda x: torch.log(x.abs() + 0.5),
    "mish": F.mish,
    "relu": F.relu,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "sqrt": lambda x: torch.sqrt(x.abs() + 0.1),
    "tanh": torch.tanh,
    "softplus": F.softplus,
    "square": lambda x: 0.3 * x * x,
    "neg": torch.neg,
    "pow": lambda x: (0.3 * x) ** 3,
    "reciprocal": lambda x: torch.reciprocal(x.abs() + 0.5),
    "swish by hand": lambda x: torch.sigmoid(x) * x,
    "swish of itself": lambda x: torch.sigmoid(x) * torch.sigmoid(x),
}


def _unary(drawing: Drawing, x: Tensor) -> Step:
    name, function = drawing.dice.choice(list(UNARY.items()))
    return Step(name, lambda s, v: function(v))


def _round(drawing: Drawing, x: Tensor) -> Step | None:
    ties = (x - x.floor() - 0.5).abs()
    # Values near a tie may round to either integer, so results could not be compared.
    return (
        None if drawing.bf16 or float(ties.min()) < 1e-3 else Step("round", lambda s, v: v.round())
    )


BINARY: dict[str, Callable[[Tensor, Any], Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": lambda a, b: a / (abs(b) + 0.5),
    "maximum": torch.maximum,
    "minimum": torch.minimum,
}


def _residual(drawing: Drawing, x: Tensor) -> Step:
    name, function = drawing.dice.choice(list(BINARY.items()))
    other = drawing.dice.choice(drawing.like(x))
    return Step(name, lambda s, a, b: function(a, b), other)


def _broadcast(drawing: Drawing, x: Tensor) -> Step:
    name, function = drawing.dice.choice(list(BINARY.items()))
    weight = drawing.parameter(drawing.sizes_that_broadcast(x))
    if drawing.chance(0.5):
        return Step(f"{name} w", lambda s, v: function(v, s.weight), weight=weight)
    return Step(f"w {name}", lambda s, v: function(s.weight, v), weight=weight)


def _broadcast_of_two(drawing: Drawing, x: Tensor) -> Step | None:
    name, function = drawing.dice.choice(list(BINARY.items()))
    fits = []
    for number, other in enumerate(drawing.values):
        try:
            torch.broadcast_shapes(other.shape, x.shape)
        except RuntimeError:
            continue
        fits.append(number)
    other = drawing.dice.choice(fits)
    return Step(f"{name} b", lambda s, a, b: function(b, a), other)


def _with_a_number(drawing: Drawing, x: Tensor) -> Step:
    way = drawing.dice.randrange(4)
    functions: list[Callable[[Tensor], Tensor]] = [
        lambda v: v + 0.5,
        lambda v: 1.5 - v,
        lambda v: v / 3,
        lambda v: torch.add(v, v, alpha=-0.5),
    ]
    return Step("number", lambda s, v: functions[way](v))


def _cat(drawing: Drawing, x: Tensor) -> Step:
    dim = drawing.dice.randrange(x.dim())
    others = [
        drawing.dice.choice(drawing.like(x, [dim])) for _ in range(drawing.dice.randint(1, 3))
    ]
    return Step("cat", lambda s, *v: torch.cat(v, dim), *others)


def _reduction(drawing: Drawing, x: Tensor) -> Step:
    dims = drawing.dice.sample(range(x.dim()), drawing.dice.randint(1, min(2, x.dim())))
    keep = drawing.chance(0.5)
    name = drawing.dice.choice(("sum", "amax", "amin", "mean"))
    function: Any = getattr(torch, name)
    return Step(name, lambda s, v: function(v, dims, keepdim=keep))


def _permute(drawing: Drawing, x: Tensor) -> Step:
    order = drawing.dice.sample(range(x.dim()), x.dim())
    if x.dim() > 1 and drawing.chance(0.4):
        return Step("transpose", lambda s, v: v.transpose(order[0], order[1]))
    return Step("permute", lambda s, v: v.permute(order))


def _reshape(drawing: Drawing, x: Tensor) -> Step:
    dice, rank = drawing.dice, x.dim()
    way = dice.randrange(6)
    dim = dice.randrange(rank)
    if way == 0:
        return Step("flatten", lambda s, v: v.flatten(dim))
    if way == 1:
        return Step("unsqueeze", lambda s, v: v.unsqueeze(dim))
    if way == 2:
        return Step("squeeze", lambda s, v: v.squeeze(dim))
    if way == 3:
        parts = [each for each in (2, 3, 4, 5) if x.shape[dim] % each == 0]
        if parts:
            part = dice.choice(parts)
            return Step("unflatten", lambda s, v: v.unflatten(dim, (part, v.shape[dim] // part)))
    if way == 4 and rank in (3, 4):
        last = {3: torch.contiguous_format, 4: torch.channels_last}[rank]
        return Step("contiguous", lambda s, v: v.contiguous(memory_format=last))
    return Step("reshape", lambda s, v: v.reshape(v.shape[0], -1))


def _slice(drawing: Drawing, x: Tensor) -> Step:
    dice, dim = drawing.dice, drawing.dice.randrange(x.dim())
    size = x.shape[dim]
    way = dice.randrange(4)
    if way == 0:
        return Step("chunk", lambda s, v: v.chunk(2, dim))
    if way == 1:
        index = dice.randrange(-size, size)
        return Step("select", lambda s, v: v.select(dim, index))
    begin = dice.randrange(size)
    end = dice.choice((size, size + 5, dice.randint(begin + 1, size), begin + 1 - size or size))
    places = [slice(None)] * dim + [slice(begin, end, 2 if way == 2 else None)]
    return Step("slice", lambda s, v: v[tuple(places)])


def _unknown(drawing: Drawing, x: Tensor) -> Step:
    dim = drawing.dice.randrange(x.dim())
    way = drawing.dice.randrange(5)
    functions: list[Callable[[Tensor], Tensor]] = [
        lambda v: 0.3 * torch.cumsum(v, dim),
        lambda v: torch.flip(v, [dim]),
        lambda v: torch.sort(v, dim).values,
        lambda v: torch.sin(v),
        lambda v: v.roll(1, dim),
    ]
    return Step("unknown", lambda s, v: functions[way](v))


def _cast(drawing: Drawing, x: Tensor) -> Step:
    return Step("cast", lambda s, v: v.float().mul(0.5).to(v.dtype))


def _expand(drawing: Drawing, x: Tensor) -> Step | None:
    if 1 not in x.shape:
        return None
    sizes = [3 if size == 1 else size for size in x.shape]
    return Step("expand", lambda s, v: v.expand(sizes))


OPS: list[tuple[Draw, float]] = [
    (_convolution, 6),
    (_transposed, 1.5),
    (_conv_of_two, 0.3),
    (_linear, 3),
    (_product, 2),
    (_product_of_two, 1),
    (_batch_norm, 1),
    (_layer_norm, 0.7),
    (_softmax, 0.7),
    (_pool, 2),
    (_global_pool, 0.7),
    (_unary, 5),
    (_round, 0.3),
    (_residual, 3),
    (_broadcast, 2),
    (_broadcast_of_two, 1),
    (_with_a_number, 0.5),
    (_cat, 1.5),
    (_reduction, 0.7),
    (_permute, 1),
    (_reshape, 1.5),
    (_slice, 1.5),
    (_unknown, 0.5),
    (_cast, 0.3),
    (_expand, 0.4),
]
