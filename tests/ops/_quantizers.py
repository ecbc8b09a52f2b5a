"""Tensors that hold every 8-bit value, quantizers to try, and drawn tensors for elementwise ops."""

from __future__ import annotations

import torch
from _strategies import LAYOUTS, with_layout
from hypothesis import strategies as st
from torch import Tensor

DTYPES = (torch.quint8, torch.qint8)
dtypes = st.sampled_from(DTYPES)
layouts = st.sampled_from(LAYOUTS)
shapes = st.lists(st.integers(0, 9), max_size=3).flatmap(
    lambda lead: st.integers(1, 90).map(lambda last: (*lead, last))
)
images = st.tuples(st.integers(1, 3), st.integers(1, 70), st.integers(1, 9), st.integers(1, 9))


def limits(dtype: torch.dtype) -> tuple[int, int]:
    """The smallest and the largest integer of a quantized dtype."""
    return (0, 255) if dtype == torch.quint8 else (-128, 127)


def make(integers: Tensor, scale: float, zero_point: int) -> Tensor:
    return torch._make_per_tensor_quantized_tensor(integers, scale, zero_point)


def every_value(scale: float, zero_point: int, dtype: torch.dtype = torch.quint8) -> Tensor:
    """All 256 values once."""
    low, high = limits(dtype)
    stored = torch.uint8 if dtype == torch.quint8 else torch.int8
    return make(torch.arange(low, high + 1).to(stored), scale, zero_point)


def every_pair(a: tuple[float, int], b: tuple[float, int]) -> tuple[Tensor, Tensor]:
    """Two tensors of 65,536 elements: all pairs of bytes."""
    values = torch.arange(256, dtype=torch.uint8)
    return make(values.repeat(256), *a), make(values.repeat_interleave(256), *b)


def quantizers(count: int, seed: int, dtype: torch.dtype = torch.quint8) -> list[tuple[float, int]]:
    """Scales over three decades, none of them round, and zero points over the whole range."""
    generator = torch.Generator().manual_seed(seed)
    low, high = limits(dtype)
    scales = 10 ** (torch.rand(count, generator=generator, dtype=torch.float64) * 3 - 3)
    zero_points = torch.randint(low, high + 1, (count,), generator=generator)
    return list(zip(scales.tolist(), zero_points.tolist(), strict=True))


@st.composite
def drawn_quantizers(draw: st.DrawFn, dtype: torch.dtype = torch.quint8) -> tuple[float, int]:
    return draw(st.floats(1e-3, 1.0)), draw(st.integers(*limits(dtype)))


def tensor(
    shape: tuple[int, ...],
    layout: str,
    quantizer: tuple[float, int],
    seed: int,
    dtype: torch.dtype = torch.quint8,
) -> Tensor:
    """A random tensor with the strides that `layout` names."""
    generator = torch.Generator().manual_seed(seed)
    low, high = limits(dtype)
    stored = torch.uint8 if dtype == torch.quint8 else torch.int8
    if len(shape) < 2 and layout in ("permuted", "channels_last", "expanded", "offset"):
        layout = "contiguous"

    def fresh(size: tuple[int, ...]) -> Tensor:
        return make(torch.randint(low, high + 1, size, generator=generator).to(stored), *quantizer)

    return with_layout(fresh, shape, layout)


def reals(x: Tensor) -> Tensor:
    """The real values of a quantized tensor in float64, from its float32 scale."""
    scale = float(torch.tensor(x.q_scale(), dtype=torch.float32))
    return (x.int_repr().to(torch.float64) - x.q_zero_point()) * scale


def assert_rounded(actual: Tensor, real: Tensor, slack: float | Tensor = 1e-4) -> None:
    """Every integer is the rounded float64 result, up to `slack` quanta of float32 errors."""
    scale = float(torch.tensor(actual.q_scale(), dtype=torch.float32))
    low, high = limits(actual.dtype)
    unrounded = real / scale

    def at(offset: float | Tensor) -> Tensor:
        return (torch.round(unrounded + offset) + actual.q_zero_point()).clamp(low, high)

    integers = actual.int_repr().to(torch.float64)
    wrong = (integers < at(-slack)) | (integers > at(slack))
    assert not wrong.any(), (
        f"{int(wrong.sum())} of {wrong.numel()} are wrong; the first is {integers[wrong][0]}, "
        f"expected {unrounded[wrong][0] + actual.q_zero_point():.6f} rounded"
    )
