"""F.linear with torchao's IntxUnpackedToInt8Tensor as weight, by cpuaccel::intx_linear.

Embeddings too, by cpuaccel::intx_embedding (embedding.py).

Registered by torchao's own extension points (registration.py). torch.compile and torch.export
trace it to one op.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from cpuaccel._ops import intx_linear as _fake_kernel  # noqa: F401
from cpuaccel.quant._torchao.embedding import ADDED, embedding_by
from cpuaccel.quant._torchao.registration import Registration, linear_by

_BITS = {getattr(torch, f"int{bits}"): 4 if bits <= 4 else 8 for bits in range(1, 9)}
"""The bits that a code of torchao's dtype is packed to."""

_registration = Registration()


def register(module: ModuleType) -> None:
    """Register cpuaccel's linear with the IntxUnpackedToInt8Tensor of torchao's module."""
    cls: Any = module.IntxUnpackedToInt8Tensor
    linear = linear_by(cls, "intx_linear", partial(_weight_reason, module), _compute)
    _registration.register(module, cls, {**linear, **embedding_by(cls)}, ADDED)


def unregister() -> None:
    """Restore torchao's functions."""
    _registration.unregister()


def is_intx(weight: Any) -> bool:
    """Say whether `weight` is of the class that cpuaccel's linear is registered with."""
    module = _registration.module
    return module is not None and type(weight) is module.IntxUnpackedToInt8Tensor


def weight_reason(weight: Any) -> str:
    """Say why cpuaccel's op cannot compute with a weight of `is_intx`; empty if it can."""
    return _weight_reason(_registration.module, weight)


def packed_bits(weight: Any) -> int:
    """Return the bits that a code of a weight of `is_intx` is packed to: 4 or 8."""
    return _BITS[weight.target_dtype]


def _weight_reason(module: Any, weight: Any) -> str:
    """Say why cpuaccel's op cannot compute with this weight; empty if it can."""
    if weight.device.type != "cpu":
        return "not on the CPU"
    if weight.dim() != 2 or weight.block_size[0] != 1:
        return "a scale for several rows, or the weight is no matrix"
    kinds = module.IntxUnpackedToInt8TensorActivationQuantization
    if weight.activation_quantization not in (None, kinds.INT8_ASYM_PER_TOKEN):
        return "unsupported quantization of activations"
    return ""


def _compute(input: Tensor, weight: Any, bias: Tensor | None) -> Tensor:
    result: Tensor = torch.ops.cpuaccel.intx_linear.default(
        *(input, weight.qdata, weight.scale, weight.zero_point, bias),
        *(_BITS[weight.target_dtype], weight.activation_quantization is not None),
    )
    return result
