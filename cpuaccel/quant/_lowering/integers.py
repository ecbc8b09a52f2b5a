"""Weights as integers, scales and zero points, of torch's quantized tensors or of files."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from cpuaccel.quant._lowering.values import plain_dtype


@dataclass(frozen=True, eq=False)
class IntegerTensor:
    """Integers that mean (q - zero_point) * scale, per tensor or per channel."""

    q: Tensor
    """int8 or uint8."""
    scale: float | Tensor
    """A number, or f32 (channels,)."""
    zero_point: int | Tensor
    """A number, or (channels,): int64, or f32 for embeddings."""
    axis: int = -1
    """The dimension of the channels; -1 per tensor."""

    def dequantize(self) -> Tensor:
        """Return the numbers that the integers mean, f32."""
        if not isinstance(self.scale, Tensor) or not isinstance(self.zero_point, Tensor):
            return (self.q.float() - self.zero_point) * self.scale
        shape = [-1 if i == self.axis else 1 for i in range(self.q.dim())]
        return (self.q.float() - self.zero_point.view(shape)) * self.scale.view(shape)


@dataclass(frozen=True)
class Convolution:
    """The parameters of F.conv and F.conv_transpose."""

    transposed: bool
    stride: list[int]
    padding: list[int]
    output_padding: list[int]
    dilation: list[int]
    groups: int


@dataclass(frozen=True, eq=False)
class UnpackedLayer:
    """What packed weights hold: those of torch when they are unpacked, or those of a file."""

    weight: IntegerTensor | Tensor
    """A plain tensor for float16 weights."""
    bias: Tensor | None
    convolution: Convolution | None = None
    """None for a linear layer."""


def integers_of(weight: Tensor, name: str) -> IntegerTensor:
    """Return the integers of one of torch's quantized tensors, the weight of `name`."""
    if plain_dtype(weight.dtype) is None:
        raise TypeError(
            f"cpuaccel.quant.lower: weight of {name}: expected dtype qint8 or quint8,"
            f" got {weight.dtype}"
        )
    q = weight.int_repr()
    if "per_tensor" in str(weight.qscheme()):
        return IntegerTensor(q, weight.q_scale(), weight.q_zero_point())
    return IntegerTensor(
        q,
        weight.q_per_channel_scales().float(),
        weight.q_per_channel_zero_points(),
        weight.q_per_channel_axis(),
    )
