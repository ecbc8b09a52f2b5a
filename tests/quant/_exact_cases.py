"""Layers whose products exceed 16 bits in pairs, all of them in one process.

`check_layers()` runs them by each provider, `check_models()` in each way of running a model. Both
return a list of errors.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from _reference import (
    Geometry,
    assert_quantum,
    assert_within,
    conv_real,
    linear_dynamic,
    linear_real,
    requantize,
)
from _strategies import ConvCase, FullRange, LinearCase
from torch import Tensor, nn
from torch.ao.quantization import (
    MinMaxObserver,
    QConfig,
    QConfigMapping,
    default_per_channel_weight_observer,
    default_weight_observer,
)
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

from quant._engine import counted, running
from quant._layers import Q, conv_op, pack_conv, pack_linear, real_of

PROVIDERS = ("auto", "fbgemm", "onednn", "cpuaccel")


@dataclass(frozen=True)
class Wide(FullRange):
    """8-bit activations and weights, or the largest values of both everywhere."""

    everywhere: int | None = None

    def activation(self, shape: tuple[int, ...], layout: str, stream: int = 1) -> Tensor:
        x = super().activation(shape, layout, stream)
        return x if self.everywhere is None else _filled(x, 255)

    def weight(self, shape: tuple[int, ...]) -> Tensor:
        weight = super().weight(shape)
        return weight if self.everywhere is None else _filled(weight, self.everywhere)


def _filled(x: Tensor, value: int) -> Tensor:
    integers = torch.full_like(x.int_repr(), value)
    if x.qscheme() == torch.per_tensor_affine:
        return torch._make_per_tensor_quantized_tensor(integers, x.q_scale(), x.q_zero_point())
    scales, zero_points = x.q_per_channel_scales(), x.q_per_channel_zero_points()
    return torch._make_per_channel_quantized_tensor(integers, scales, zero_points, 0)


def check_layers(seed: int, count: int, providers: tuple[str, ...] = PROVIDERS) -> list[str]:
    """`count` convolutions of each kind and some linear layers, each by each provider."""
    wrong = []
    for case in [*_convolutions(seed, count), *_linears(seed)]:
        for provider in providers:
            with running(provider), counted() as counts:
                errors = [f"{provider}: {case}: {error}" for error in _errors(case)]
            # If a forced provider rejects a layer, torch runs it.
            wrong += errors if provider == "auto" or counts.ours() else []
    return wrong


def _errors(case: ConvCase | LinearCase) -> Iterator[str]:
    if isinstance(case, LinearCase):
        yield from _caught(lambda: _check_dynamic(case))
    real = real_of(case)
    scale = case.values.output_scale(real)
    yield from _caught(
        lambda: assert_quantum(_run(case, scale), requantize(real, scale, case.values.y_zero_point))
    )


def _run(case: ConvCase | LinearCase, scale: float) -> Tensor:
    if isinstance(case, LinearCase):
        return Q.linear(case.x, pack_linear(case), scale, case.values.y_zero_point)
    return conv_op(case)(case.x, pack_conv(case), scale, case.values.y_zero_point)


def _check_dynamic(case: LinearCase) -> None:
    for reduce_range in (False, True):
        found = Q.linear_dynamic(case.x_float, pack_linear(case), reduce_range)
        expected, allowed = linear_dynamic(
            case.x_float, case.weight, case.bias, reduce_range=reduce_range, relu=False
        )
        assert_within(found, expected, allowed)


def _caught(check: Callable[[], None]) -> Iterator[str]:
    try:
        check()
    except AssertionError as error:
        yield str(error)


# Groups, and input and output channels of each group.
_CHANNELS = {
    "dense": (1, 16, 20),
    "few": (1, 3, 16),
    "grouped": (4, 8, 8),
    "depthwise": (16, 1, 1),
    "multiplied": (16, 1, 2),
}


def _convolutions(seed: int, count: int) -> Iterator[ConvCase]:
    drawn = random.Random(seed)
    for dims in (1, 2, 3):
        for transposed in (False, True):
            for groups, per_in, per_out in _CHANNELS.values():
                for _ in range(count):
                    yield _convolution(drawn, dims, transposed, groups, per_in, per_out)


def _convolution(
    drawn: random.Random, dims: int, transposed: bool, groups: int, per_in: int, per_out: int
) -> ConvCase:
    # FBGEMM has special kernels for 3x3 and 3x3x3.
    side = drawn.choice((1, 3, 3, 5 if dims < 3 else 2))
    stride, dilation = drawn.choice((1, 1, 2)), drawn.choice((1, 1, 2))
    padding = drawn.randint(0, side // 2)
    values = Wide(
        seed=drawn.randrange(2**20),
        x_zero_point=drawn.choice((0, 0, 100, 255)),
        y_zero_point=drawn.choice((0, 64)),
        per_channel=not transposed and drawn.random() < 0.5,
        bias=drawn.random() < 0.5,
        everywhere=drawn.choice((127, -128, None, None)),
    )
    return ConvCase(
        batch=drawn.choice((1, 2)),
        channels_in=groups * per_in,
        channels_out=groups * per_out,
        kernel=(side,) * dims,
        image=(dilation * (side - 1) + 1 + drawn.randint(0, 3),) * dims,
        geometry=Geometry(
            (stride,) * dims,
            (padding,) * dims,
            (dilation,) * dims,
            groups,
            ((min(1, padding, stride - 1),) * dims) if transposed else (),
            transposed,
        ),
        layout="contiguous",
        values=values,
    )


def _linears(seed: int) -> Iterator[LinearCase]:
    for rows in (1, 5, 40):
        for everywhere in (127, -128, None):
            values = Wide(seed=seed + rows, per_channel=rows == 5, everywhere=everywhere)
            yield LinearCase((rows,), 67, 33, "contiguous", values)
            zero_points = Wide(seed=seed + rows, symmetric=False, everywhere=everywhere)
            yield LinearCase((rows,), 64, 16, "contiguous", zero_points)


class Layers(nn.Module):
    """Layers side by side, each with its own input."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.count = len(layers)
        for i, layer in enumerate(layers):
            self.add_module(f"layer{i}", layer)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(getattr(self, f"layer{i}")(inputs[i]) for i in range(self.count))


Way = Callable[[nn.Module, tuple[Tensor, ...]], nn.Module]


def check_models(ways: dict[str, Way]) -> list[str]:
    """Checks one model whose layers have 8-bit activations and weights."""
    wrong = []
    names, layers, shapes = zip(*_layers(), strict=True)
    generator = torch.Generator().manual_seed(1)
    with running("auto"), torch.no_grad():
        xs = tuple((torch.rand(shape, generator=generator) > 0.2).float() for shape in shapes)
        prepared = prepare_fx(Layers(list(layers)).eval(), _mapping(), xs)
        prepared(*xs)
        model = convert_fx(prepared)
        for way, make in ways.items():
            results = make(copy.deepcopy(model), xs)(*xs)
            for i, (name, found) in enumerate(zip(names, results, strict=True)):
                step = model.get_submodule(f"layer{i}").scale
                error = float((found - _expected(model, i, xs[i])).abs().max()) / step
                if not error < 1.01:
                    wrong.append(f"{way}: {name} is off by {error:.0f} quanta")
    return wrong


def _mapping() -> QConfigMapping:
    """8-bit activations and weights."""
    activation = MinMaxObserver.with_args(dtype=torch.quint8)
    mapping = QConfigMapping().set_global(QConfig(activation, default_per_channel_weight_observer))
    for kind in (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d):
        mapping.set_object_type(kind, QConfig(activation, default_weight_observer))
    return mapping


def _layers() -> Iterator[tuple[str, nn.Module, tuple[int, ...]]]:
    yield "linear", _signs(nn.Linear(64, 32)), (4, 64)
    plain = ((1, nn.Conv1d), (2, nn.Conv2d), (3, nn.Conv3d))
    for dims, kind in plain:
        for groups in (1, 2):
            layer = kind(16, 32, 3, padding=1, groups=groups)
            yield f"conv{dims}d of {groups} groups", _signs(layer), (2, 16, *(6,) * dims)
        for outputs in (16, 32):
            layer = kind(16, outputs, 3, groups=16)
            yield f"conv{dims}d of 16 groups to {outputs}", _signs(layer), (1, 16, *(6,) * dims)
    transposed = ((1, nn.ConvTranspose1d), (2, nn.ConvTranspose2d), (3, nn.ConvTranspose3d))
    for dims, kind in transposed:
        yield f"conv_transpose{dims}d", _signs(kind(16, 8, 3, 2)), (1, 16, *(5,) * dims)


def _signs(layer: nn.Module) -> nn.Module:
    """Weights that are 127 and -127 once quantized, with unequal counts."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        drawn = torch.rand(layer.weight.shape, generator=generator)
        layer.weight.copy_((drawn > 0.2).float() * 2 - 1)
    return layer


def _expected(model: nn.Module, i: int, x: Tensor) -> Tensor:
    layer, buffers = model.get_submodule(f"layer{i}"), dict(model.named_buffers())
    scale, zero_point = float(buffers[f"_scale_{i}"]), int(buffers[f"_zero_point_{i}"])
    quantized = torch.quantize_per_tensor(x, scale, zero_point, torch.quint8)
    weight, bias = layer.weight(), layer.bias()
    if weight.dim() == 2:
        real = linear_real(quantized, weight, bias)
    else:
        geometry = Geometry(
            tuple(layer.stride),
            tuple(layer.padding),
            tuple(layer.dilation),
            layer.groups,
            tuple(layer.output_padding),
            "Transpose" in type(layer).__name__,
        )
        real = conv_real(quantized, weight, bias, geometry)
    steps = (real / layer.scale).round() + layer.zero_point
    return (steps.clamp(0, 255) - layer.zero_point) * layer.scale
