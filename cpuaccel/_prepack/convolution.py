"""nn.Conv1d and nn.Conv2d with packed weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cpuaccel import _native
from cpuaccel._compat import suggest_memory_format
from cpuaccel._prepack.conversion import make_plain, packs, plain_call_reason, weights_of
from cpuaccel._prepack.matrix import PackedMatrix, too_large_reason
from cpuaccel._prepack.module import PackedModule
from cpuaccel._prepack.weight import Form


class PackedFilters(PackedMatrix):
    """A convolution's packed weight: for each group a matrix with (C/groups * KH * KW) features."""

    def __init__(self, parameter: nn.Parameter, groups: int) -> None:
        super().__init__(parameter, (parameter.shape[0] // groups,) * groups)
        self.channels_last = suggest_memory_format(parameter.detach()) == torch.channels_last
        """Whether the weight was channels_last in memory; then the result is, too."""

    def convolve(
        self,
        input: Tensor,
        bias: Tensor | None,
        stride: tuple[int, ...],
        padding: tuple[int, ...],
        dilation: tuple[int, ...],
        groups: int,
    ) -> Tensor:
        """Return the convolution of a batch with this weight."""
        result: Tensor = torch.ops.cpuaccel.packed_convolution.default(
            input,
            self.parts,
            self.panel,
            self.shape,
            bias,
            stride,
            padding,
            dilation,
            groups,
            self.channels_last,
        )
        return result


@dataclass(frozen=True)
class Filters:
    """The form of a convolution's weight."""

    groups: int

    def unpackable_reason(self, parameter: nn.Parameter) -> str:
        if parameter.dtype != torch.float32:
            return f"its weight has dtype {parameter.dtype}"
        rows, channels = parameter.shape[:2]
        if self.groups > 1 and channels == 1:
            return "depthwise convolutions use unpacked weights"
        if rows % self.groups != 0:
            return (
                f"{self.groups} groups do not divide its weight of shape {tuple(parameter.shape)}"
            )
        return (
            too_large_reason((rows // self.groups,) * self.groups)
            or _rounding_reason()
            or no_convolutions_reason()
        )

    def pack(self, parameter: nn.Parameter) -> PackedFilters:
        return PackedFilters(parameter, self.groups)


def no_convolutions_reason() -> str:
    """Return the reason why no convolution is packed on this CPU, or ""."""
    return _native.load().packed_convolution_fallback_reason()


class _Convolution(PackedModule):
    @classmethod
    def forms_to_pack(cls, module: Any) -> dict[str, Form] | str:
        weight = dict.get(module._parameters, "weight")
        if weight is None:
            return "it has no weight"
        if weight.dim() != len(module.kernel_size) + 2:
            return f"its weight has shape {tuple(weight.shape)}"
        return {"weight": Filters(module.groups)}

    def forward(self: Any, input: Tensor) -> Tensor:
        weights = weights_of(self)
        if weights:
            weight = weights["weight"]
            reason = plain_call_reason(self, (weight,), (input,))
            reason = reason or _rounding_reason()
            if not reason:
                return _convolve(self, weight, input)
            make_plain(self, reason)
        result: Tensor = self._conv_forward(input, self.weight, self.bias)
        return result


def _rounding_reason() -> str:
    """Return the reason why a convolution needs its plain weight now, or ""."""
    if torch.is_autocast_enabled("cpu"):
        return "autocast casts the plain weight of a convolution"
    if _native.load().fastmath_on():
        return "fast math rounds the plain weight of a convolution"
    return ""


def _convolve(module: Any, weight: PackedFilters, input: Tensor) -> Tensor:
    padding = module.padding
    if module.padding_mode != "zeros" or padding == "same":
        mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
        input = F.pad(input, module._reversed_padding_repeated_twice, mode=mode)
        padding = "valid"
    if padding == "valid":
        padding = (0,) * len(module.kernel_size)
    alone = input.dim() == len(module.kernel_size) + 1
    result = weight.convolve(
        input.unsqueeze(0) if alone else input,
        module.bias,
        module.stride,
        padding,
        module.dilation,
        module.groups,
    )
    return result.squeeze(0) if alone else result


@packs(nn.Conv1d)
class PackedConv1d(_Convolution, nn.Conv1d):
    """nn.Conv1d whose weight is packed."""


@packs(nn.Conv2d)
class PackedConv2d(_Convolution, nn.Conv2d):
    """nn.Conv2d whose weight is packed."""
