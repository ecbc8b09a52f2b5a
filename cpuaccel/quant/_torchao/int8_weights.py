"""F.linear with torchao's Int8Tensor as weight, by cpuaccel::int8_linear; with groups, intx_linear.

Embeddings too, by cpuaccel::intx_embedding (embedding.py).

Registered by torchao's own extension points (registration.py). torch.compile and torch.export
trace it to one op.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from cpuaccel._ops import int8_linear as _fake_kernel  # noqa: F401
from cpuaccel._ops import intx_linear as _fake_kernel_of_groups  # noqa: F401
from cpuaccel.quant._torchao.embedding import ADDED, embedding_by
from cpuaccel.quant._torchao.registration import Registration, linear_by
from cpuaccel.quant.int8_linear import Rounding

_REDUCED = (-64, 63)
_WHOLE = (-128, 127)

_registration = Registration()


def register(module: ModuleType) -> None:
    """Register cpuaccel's linear with the Int8Tensor of torchao's module."""
    cls: Any = module.Int8Tensor
    linear = linear_by(cls, "int8_linear", _weight_reason_for(module), _compute())
    _registration.register(module, cls, {**linear, **embedding_by(cls)}, ADDED)


def unregister() -> None:
    """Restore torchao's functions."""
    _registration.unregister()


def is_int8(weight: Any) -> bool:
    """Say whether `weight` is of the class that cpuaccel's linear is registered with."""
    module = _registration.module
    return module is not None and type(weight) is module.Int8Tensor


def weight_reason(weight: Any) -> str:
    """Say why cpuaccel's op cannot compute with a weight of `is_int8`; empty if it can."""
    if _registration.module is None:
        raise RuntimeError("no Int8Tensor is registered: call register() first")
    reason: str = _weight_reason_for(_registration.module)(weight)
    return reason


def _weight_reason_for(module: ModuleType) -> Any:
    kwargs_class: Any = module.QuantizeTensorToInt8Kwargs
    from torchao.quantization.granularity import PerRow, PerTensor
    from torchao.quantization.quant_primitives import MappingType

    def weight_reason(weight: Any) -> str:
        if weight.device.type != "cpu":
            return "not on the CPU"
        if weight.dim() != 2 or weight.scale.dim() != 2:
            return "the weight is no matrix"
        quantizes = weight.act_quant_kwargs
        if quantizes is None:
            one = weight.scale.shape[1] == 1
            return "" if one or weight.block_size[0] == 1 else "a scale for several rows"
        if weight.scale.shape[1] != 1:
            return "int8 activations and a weight with groups"
        if type(quantizes) is not kwargs_class:
            return "activations are not int8"
        mapping, granularity = quantizes.mapping_type, quantizes.granularity
        if mapping != MappingType.SYMMETRIC and mapping != MappingType.ASYMMETRIC:
            return "unsupported mapping type"
        if isinstance(granularity, PerTensor):
            return ""
        # torchao before 0.16 has no PerRow.dim
        if isinstance(granularity, PerRow) and getattr(granularity, "dim", -1) == -1:
            return ""
        return "unsupported granularity of activations"

    return weight_reason


def rounding_of(weight: Any) -> Rounding:
    """Return how a weight of `is_int8` asks to round the rows of the input."""
    from torchao.quantization.granularity import PerTensor
    from torchao.quantization.quant_primitives import MappingType

    quantizes = weight.act_quant_kwargs
    if quantizes is None:
        return Rounding()
    symmetric = quantizes.mapping_type == MappingType.SYMMETRIC
    low, high = _REDUCED if quantizes.reduce_range else _WHOLE
    if weight.act_quant_scale is not None:
        given = weight.act_quant_scale, weight.act_quant_zero_point
        return Rounding("given", symmetric, low, high, *given)
    rows = "tensor" if isinstance(quantizes.granularity, PerTensor) else "row"
    return Rounding(rows, symmetric, low, high)


def _compute() -> Any:
    """Return the linear layer of an input, a weight and a bias, by cpuaccel's op."""
    op: Any = torch.ops.cpuaccel.int8_linear.default
    op_of_groups: Any = torch.ops.cpuaccel.intx_linear.default

    def compute(input: Tensor, weight: Any, bias: Tensor | None) -> Tensor:
        if weight.act_pre_scale is not None:
            dtype = input.dtype
            input = input * weight.act_pre_scale
            if input.dtype != dtype:
                return op_of(input.float(), weight, bias).to(dtype)
        return op_of(input, weight, bias)

    def op_of(input: Tensor, weight: Any, bias: Tensor | None) -> Tensor:
        if weight.scale.shape[1] != 1:
            by_groups: Tensor = op_of_groups(
                input, weight.qdata, weight.scale, weight.zero_point, bias, 8, False
            )
            return by_groups
        by = rounding_of(weight)
        result: Tensor = op(
            *(input, weight.qdata, weight.scale, weight.zero_point, bias),
            *(by.rows, by.symmetric, by.scale, by.zero_point, by.low, by.high),
        )
        return result

    return compute
