"""Reference of quantized layers in float64, and the rules for agreement with it.

Integers below 2^53 are exact in float64, so the accumulators here are exact in whatever order torch
sums:

    acc  = sum (x_q - x_zp) * (w_q - w_zp[oc])
    real = acc * s_x * s_w[oc] + bias[oc], then relu, leaky relu, tanh or the addition
    y_q  = clamp(round_half_even(real / s_y) + zp_y, 0, 255)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

ROUNDING = 1e-3
"""In quanta. Engines compute in float32; this close to a tie they may round either way."""

_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_CONV_TRANSPOSE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


@dataclass(frozen=True)
class Expected:
    """A quantized result before rounding: real / scale + zero_point, float64, not clamped."""

    unrounded: Tensor
    scale: float
    zero_point: int
    slack: Tensor | float = ROUNDING
    """How far an engine's value may be from `unrounded` before it rounds, in quanta."""

    def at(self, offset: Tensor | float) -> Tensor:
        """The integers that `unrounded + offset` rounds to."""
        steps = torch.round(self.unrounded + offset - self.zero_point) + self.zero_point
        return steps.clamp(0, 255).to(torch.int64)


@dataclass(frozen=True)
class Geometry:
    """Parameters of a convolution; one number per spatial dimension."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1
    output_padding: tuple[int, ...] = ()
    transposed: bool = False


def centered(x: Tensor) -> Tensor:
    """The integers of a quantized tensor minus their zero points, float64."""
    integers = x.int_repr().to(torch.float64)
    if x.qscheme() == torch.per_tensor_affine:
        return integers - x.q_zero_point()
    return integers - _along(x.q_per_channel_zero_points(), x, x.q_per_channel_axis())


def linear_real(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The real result of a linear layer on a quint8 input, float64."""
    acc = centered(x) @ centered(weight).t()
    return _scaled(acc, x.q_scale(), weight, bias, channel=acc.dim() - 1)


def conv_real(x: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry) -> Tensor:
    """The real result of a (transposed) convolution on a quint8 input, float64."""
    return _scaled(_conv(centered(x), centered(weight), geometry), x.q_scale(), weight, bias, 1)


def requantize(real: Tensor, scale: float, zero_point: int) -> Expected:
    """The expected quantized output of `real`."""
    return Expected(real / scale + zero_point, scale, zero_point)


def choose_qparams(x: Tensor, reduce_range: bool) -> tuple[float, int]:
    """torch's ChooseQuantizationParams for the values of `x`: scale and zero point, quint8."""
    qmax = 127 if reduce_range else 255
    low = min(float(x.min()), 0.0) if x.numel() else 0.0
    high = max(float(x.max()), 0.0) if x.numel() else 0.0
    scale = (high - low) / qmax
    single = float(torch.tensor(scale, dtype=torch.float32))
    if single == 0.0 or math.isinf(float(1 / torch.tensor(single))):
        scale = 0.1
    smallest = float(torch.tensor(6.1e-5, dtype=torch.float32))
    if scale < smallest:
        low, high = _widened(low, high, smallest / scale, smallest * qmax)
        scale = smallest
    from_low, from_high = -low / scale, qmax - high / scale
    # As in torch, the end with the smaller error in float32 decides.
    initial = from_low if -abs(low / scale) < qmax - abs(high / scale) else from_high
    return scale, round(min(max(initial, 0), qmax))


def linear_dynamic(
    x: Tensor, weight: Tensor, bias: Tensor | None, *, reduce_range: bool, relu: bool
) -> tuple[Tensor, Tensor]:
    """The float64 result of a dynamic linear layer, and the error allowed for each element."""
    quantized, doubtful = _dynamic_input(x, reduce_range)
    real = linear_real(quantized, weight, bias)
    size = linear_real_size(quantized, weight, bias)
    step = _scaled(doubtful @ centered(weight).abs().t(), quantized.q_scale(), weight, None, -1)
    return (real.clamp(min=0) if relu else real), step + 1e-5 * size + 1e-30


def linear_real_size(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The sum of the absolute values of the terms of `linear_real`."""
    acc = centered(x).abs() @ centered(weight).abs().t()
    size = None if bias is None else bias.abs()
    return _scaled(acc, x.q_scale(), weight, size, channel=acc.dim() - 1)


def conv_dynamic(
    x: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry, *, reduce_range: bool
) -> Expected:
    """A dynamic convolution. torch quantizes its output too, with the input's scale."""
    quantized, doubtful = _dynamic_input(x, reduce_range)
    scale, zero_point = quantized.q_scale(), quantized.q_zero_point()
    real = conv_real(quantized, weight, bias, geometry)
    step = _scaled(_conv(doubtful, centered(weight).abs(), geometry), scale, weight, None, 1)
    return Expected(real / scale + zero_point, scale, zero_point, ROUNDING + step / scale)


def assert_quantum(actual: Tensor, expected: Expected, max_fraction: float = 0.001) -> None:
    """Asserts that `actual` is `expected`, except for one quantum where float32 may round
    otherwise.

    An element may differ only if the value before rounding is within `ROUNDING` of a tie, and at
    most `max_fraction` of the elements may differ (one value in a small tensor).
    """
    assert actual.dtype == torch.quint8, f"dtype {actual.dtype}"
    assert actual.q_scale() == expected.scale, f"scale {actual.q_scale()}, not {expected.scale}"
    assert actual.q_zero_point() == expected.zero_point, f"zero point {actual.q_zero_point()}"
    assert_integers(actual.int_repr(), expected, max_fraction)


def assert_integers(actual: Tensor, expected: Expected, max_fraction: float = 0.001) -> None:
    """The rule of `assert_quantum` for the integers of a result."""
    assert actual.shape == expected.unrounded.shape, (
        f"shape {tuple(actual.shape)}, not {tuple(expected.unrounded.shape)}"
    )
    integers = actual.to(torch.int64)
    slack = torch.as_tensor(expected.slack, dtype=torch.float64)
    wrong = (integers < expected.at(-slack)) | (integers > expected.at(slack))
    if wrong.any():
        index = tuple(wrong.nonzero()[0].tolist())
        raise AssertionError(
            f"{int(wrong.sum())} of {wrong.numel()} elements are wrong; at {index}: "
            f"{int(integers[index])}, expected {float(expected.unrounded[index]):.6f} rounded"
        )
    # Outputs that see only padding equal the bias; they count as one value, however many there are.
    differs = (integers != expected.at(0.0)) & (slack <= ROUNDING)
    differing = expected.unrounded[differs].unique().numel()
    allowed = max(1, math.ceil(max_fraction * integers.numel()))
    assert differing <= allowed, (
        f"{differing} values of {integers.numel()} elements differ by a quantum"
    )


def assert_agree(actual: Tensor, other: Tensor, max_fraction: float = 0.001) -> None:
    """Asserts that two engines' results agree.

    At most `max_fraction` of the elements may differ, by at most one quantum. One element may
    differ in a small tensor.
    """
    assert actual.shape == other.shape, f"{tuple(actual.shape)}, not {tuple(other.shape)}"
    assert actual.dtype == other.dtype
    assert actual.q_scale() == other.q_scale()
    assert actual.q_zero_point() == other.q_zero_point()
    steps = (actual.int_repr().to(torch.int64) - other.int_repr().to(torch.int64)).abs()
    if not steps.numel():
        return
    assert int(steps.max()) <= 1, f"{int(steps.max())} quanta apart"
    differing, allowed = int((steps > 0).sum()), max(1, math.ceil(max_fraction * steps.numel()))
    assert differing <= allowed, f"{differing} of {steps.numel()} elements differ by a quantum"


def assert_within(actual: Tensor, expected: Tensor, allowed: Tensor) -> None:
    """Every element of a float result is within its own allowed error."""
    assert actual.dtype == torch.float32, f"dtype {actual.dtype}"
    assert actual.shape == expected.shape, f"{tuple(actual.shape)}, not {tuple(expected.shape)}"
    excess = (actual.to(torch.float64) - expected).abs() - allowed
    assert not excess.numel() or float(excess.max()) <= 0, (
        f"off by {float(excess.max()):.3g} more than allowed"
    )


def _along(values: Tensor, like: Tensor, axis: int) -> Tensor:
    shape = [1] * like.dim()
    shape[axis] = -1
    return values.to(torch.float64).reshape(shape)


def _scaled(acc: Tensor, scale: float, weight: Tensor, bias: Tensor | None, channel: int) -> Tensor:
    if weight.qscheme() == torch.per_tensor_affine:
        real = acc * (scale * weight.q_scale())
    else:
        real = acc * (_along(weight.q_per_channel_scales(), acc, channel) * scale)
    return real if bias is None else real + _along(bias, acc, channel)


def _conv(x: Tensor, weight: Tensor, geometry: Geometry) -> Tensor:
    dims = weight.dim() - 2
    if geometry.transposed:
        full = _CONV_TRANSPOSE[dims](
            x, weight, None, geometry.stride, 0, 0, geometry.groups, geometry.dilation
        )
        # Cropped here: torch's float op rejects output paddings that its quantized op accepts.
        added = geometry.output_padding or (0,) * dims
        pairs = [(-p, o - p) for p, o in zip(geometry.padding, added, strict=True)]
        return F.pad(full, [side for pair in reversed(pairs) for side in pair])
    return _CONV[dims](
        x, weight, None, geometry.stride, geometry.padding, geometry.dilation, geometry.groups
    )


def _dynamic_input(x: Tensor, reduce_range: bool) -> tuple[Tensor, Tensor]:
    """The quantized input, and 1.0 where float32 may quantize to the next integer."""
    scale, zero_point = choose_qparams(x, reduce_range)
    steps = x.to(torch.float64) / scale
    integers = (torch.round(steps) + zero_point).clamp(0, 255).to(torch.uint8)
    doubtful = ((steps - steps.floor() - 0.5).abs() < 1e-4).to(torch.float64)
    quantized = torch._make_per_tensor_quantized_tensor(integers, scale, zero_point)
    return quantized, doubtful


def _widened(low: float, high: float, factor: float, width: float) -> tuple[float, float]:
    if low == 0.0:
        return low, width
    if high == 0.0:
        return -width, high
    return low * factor, high * factor
