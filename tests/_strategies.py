"""Hypothesis strategies for quantized layers: a small drawn recipe, and the tensors made of it.

Hypothesis draws the parameters (shapes, layout, zero points, groups) and one seed. The values come
from a seeded generator, so that drawing is quick and a failing case shrinks to a short line.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from _reference import Geometry
from hypothesis import strategies as st
from torch import Tensor

LAYOUTS = ("contiguous", "channels_last", "sliced", "permuted", "expanded", "offset")


@dataclass(frozen=True)
class Values:
    """The distribution of the integers of activations, weights and output."""

    seed: int = 0
    x_zero_point: int = 0
    y_zero_point: int = 0
    per_channel: bool = False
    symmetric: bool = True
    bias: bool = True
    wide: bool = False
    """8-bit activations with 7-bit weights, instead of the other way round.

    Either way a pair of products fits 16 bits: FBGEMM and oneDNN add pairs with saturation on an
    AVX2 machine without VNNI.
    """

    @property
    def x_max(self) -> int:
        return 255 if self.wide else 127

    @property
    def w_max(self) -> int:
        return 63 if self.wide else 127

    def generator(self, stream: int) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed * 16 + stream)

    def scale(self, stream: int, low: float, high: float) -> float:
        """A scale with no short binary form: a round one would make every tenth element a tie."""
        fraction = float(torch.rand((), generator=self.generator(stream), dtype=torch.float64))
        return low + (high - low) * fraction

    def activation(self, shape: tuple[int, ...], layout: str, stream: int = 1) -> Tensor:
        """A quint8 tensor of that shape, with the strides that `layout` names."""
        generator = self.generator(stream)
        scale = self.scale(stream + 1, 0.01, 0.1)

        def fresh(size: tuple[int, ...]) -> Tensor:
            integers = torch.randint(0, self.x_max + 1, size, generator=generator)
            return torch._make_per_tensor_quantized_tensor(
                integers.to(torch.uint8), scale, self.x_zero_point
            )

        return with_layout(fresh, shape, layout)

    def weight(self, shape: tuple[int, ...]) -> Tensor:
        """A qint8 weight with its channels on axis 0."""
        generator = self.generator(5)
        bound = self.w_max
        integers = torch.randint(-bound - 1, bound + 1, shape, generator=generator).to(torch.int8)
        if not self.per_channel:
            zero_point = 0 if self.symmetric else int(self._zero_points(1))
            scale = self.scale(6, 0.005, 0.05)
            return torch._make_per_tensor_quantized_tensor(integers, scale, zero_point)
        channels = shape[0]
        scales = torch.rand(channels, generator=generator, dtype=torch.float64) * 0.04 + 0.005
        zeros = torch.zeros(channels, dtype=torch.int64)
        if not self.symmetric:
            zeros = self._zero_points(channels)
        return torch._make_per_channel_quantized_tensor(integers, scales, zeros, 0)

    def bias_of(self, channels: int) -> Tensor | None:
        if not self.bias:
            return None
        return torch.randn(channels, generator=self.generator(7)) * 2

    def output_scale(self, real: Tensor) -> float:
        """A scale with which most of `real` is in range and some of it saturates."""
        spread = float(real.std()) if real.numel() > 1 else 1.0
        return max(spread, 1e-2) / self.scale(8, 20.0, 70.0)

    def _zero_points(self, count: int) -> Tensor:
        return torch.randint(-20, 21, (count,), generator=self.generator(9))


@dataclass(frozen=True)
class FullRange(Values):
    """8-bit activations with 8-bit weights: pairs of products exceed 16 bits."""

    @property
    def x_max(self) -> int:
        return 255

    @property
    def w_max(self) -> int:
        return 127


@dataclass(frozen=True)
class LinearCase:
    """A linear layer and its input."""

    lead: tuple[int, ...]
    features_in: int
    features_out: int
    layout: str
    values: Values

    @cached_property
    def x(self) -> Tensor:
        return self.values.activation((*self.lead, self.features_in), self.layout)

    @cached_property
    def x_float(self) -> Tensor:
        """A float input of the same shape and strides, for dynamic layers."""
        return floats(self.values, (*self.lead, self.features_in), self.layout)

    @cached_property
    def weight(self) -> Tensor:
        return self.values.weight((self.features_out, self.features_in))

    @cached_property
    def bias(self) -> Tensor | None:
        return self.values.bias_of(self.features_out)


@dataclass(frozen=True)
class ConvCase:
    """A convolution, plain or transposed, and its input."""

    batch: int
    channels_in: int
    channels_out: int
    kernel: tuple[int, ...]
    image: tuple[int, ...]
    geometry: Geometry
    layout: str
    values: Values

    @cached_property
    def x(self) -> Tensor:
        return self.values.activation((self.batch, self.channels_in, *self.image), self.layout)

    @cached_property
    def x_float(self) -> Tensor:
        """A float input of the same shape and strides, for dynamic layers."""
        return floats(self.values, (self.batch, self.channels_in, *self.image), self.layout)

    @cached_property
    def weight(self) -> Tensor:
        groups = self.geometry.groups
        if self.geometry.transposed:
            shape = (self.channels_in, self.channels_out // groups, *self.kernel)
        else:
            shape = (self.channels_out, self.channels_in // groups, *self.kernel)
        return self.values.weight(shape)

    @cached_property
    def bias(self) -> Tensor | None:
        return self.values.bias_of(self.channels_out)


def floats(values: Values, shape: tuple[int, ...], layout: str) -> Tensor:
    """Float activations of several units, some of them negative."""
    generator = values.generator(11)
    shift = values.scale(12, -2.0, 2.0)
    return with_layout(
        lambda size: torch.randn(size, generator=generator) * 1.7 + shift, shape, layout
    )


def with_layout(fresh, shape: tuple[int, ...], layout: str) -> Tensor:
    """A tensor of `shape` made by `fresh`, contiguous or a view with other strides."""
    dims = len(shape)
    if layout == "channels_last" and dims in (4, 5):
        formats = {4: torch.channels_last, 5: torch.channels_last_3d}
        return fresh(shape).contiguous(memory_format=formats[dims])
    if layout == "sliced":
        return fresh((*shape[:-1], 2 * shape[-1] + 1))[..., 1::2]
    if layout == "permuted":
        return fresh((*shape[:-2], shape[-1], shape[-2])).transpose(-1, -2)
    if layout == "expanded":
        # A view of a whole tensor: torch's dynamic convolutions read as many elements as the view
        # has, contiguously from its first one.
        return fresh(shape)[:1].expand(shape)
    if layout == "offset":
        return fresh((shape[0] + 1, *shape[1:]))[1:]
    return fresh(shape)


@st.composite
def values(draw: st.DrawFn) -> Values:
    wide = draw(st.booleans())
    zero_point = st.one_of(st.just(0), st.integers(0, 255 if wide else 127))
    return Values(
        seed=draw(st.integers(0, 2**20)),
        x_zero_point=draw(zero_point),
        y_zero_point=draw(st.one_of(st.just(0), st.integers(0, 255))),
        per_channel=draw(st.booleans()),
        symmetric=draw(st.booleans()),
        bias=draw(st.booleans()),
        wide=wide,
    )


@st.composite
def linears(draw: st.DrawFn) -> LinearCase:
    lead = draw(st.lists(st.integers(0, 9), min_size=1, max_size=3))
    return LinearCase(
        lead=tuple(lead),
        features_in=draw(st.integers(1, 70)),
        features_out=draw(st.integers(1, 40)),
        layout=draw(st.sampled_from(LAYOUTS)),
        values=draw(values()),
    )


@st.composite
def convs(draw: st.DrawFn, dims: int, *, transposed: bool = False) -> ConvCase:
    """Plain, grouped and depthwise convolutions, in one, two or three dimensions."""
    groups, per_group_in, per_group_out = draw(channels())
    largest = {1: 9, 2: 5, 3: 3}[dims]

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(low, high), min_size=dims, max_size=dims)))

    kernel, stride = each(1, largest), each(1, 3)
    dilation, padding = each(1, 2), each(0, 3)
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    extra = each(0, {1: 20, 2: 8, 3: 4}[dims])
    output_padding: tuple[int, ...] = ()
    if transposed:
        output_padding = tuple(min(o, s - 1) for o, s in zip(each(0, 1), stride, strict=True))
        image = tuple(e + 1 for e in extra)
        # At least one row and column of the full result remain.
        full = [e * t + s for e, t, s in zip(extra, stride, spans, strict=True)]
        padding = tuple(min(p, (f - 1) // 2) for p, f in zip(padding, full, strict=True))
    else:
        smallest = [max(1, s - 2 * p) for s, p in zip(spans, padding, strict=True)]
        image = tuple(s + e for s, e in zip(smallest, extra, strict=True))
    drawn = draw(values())
    return ConvCase(
        batch=draw(st.integers(0, 3)),
        channels_in=groups * per_group_in,
        channels_out=groups * per_group_out,
        kernel=kernel,
        image=image,
        geometry=Geometry(stride, padding, dilation, groups, output_padding, transposed),
        layout=draw(st.sampled_from(LAYOUTS)),
        # torch's transposed convolution does not support per-channel scales.
        values=replace(drawn, per_channel=False) if transposed else drawn,
    )


@st.composite
def channels(draw: st.DrawFn) -> tuple[int, int, int]:
    """Groups, and input and output channels of each group."""
    kind = draw(st.sampled_from(("dense", "depthwise", "multiplied", "grouped")))
    if kind == "dense":
        return 1, draw(st.integers(1, 20)), draw(st.integers(1, 20))
    if kind == "depthwise":
        return draw(st.integers(2, 40)), 1, 1
    if kind == "multiplied":
        return draw(st.integers(2, 12)), 1, draw(st.integers(2, 3))
    return draw(st.sampled_from((2, 3, 4, 8))), draw(st.integers(1, 8)), draw(st.integers(1, 8))


def output_image(case: ConvCase) -> tuple[int, ...]:
    """The spatial size of the output."""
    g = case.geometry
    spans = [d * (k - 1) + 1 for d, k in zip(g.dilation, case.kernel, strict=True)]
    rows = zip(case.image, spans, g.stride, g.padding, strict=True)
    if g.transposed:
        added = g.output_padding
        return tuple(
            (i - 1) * t - 2 * p + s + o for (i, s, t, p), o in zip(rows, added, strict=True)
        )
    return tuple((i + 2 * p - s) // t + 1 for i, s, t, p in rows)
