"""F.linear with torchao's IntxUnpackedToInt8Tensor as weight, by cpuaccel::intx_linear.

Registered by torchao's own extension points (registration.py). torch.compile and torch.export
trace it to one op.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from cpuaccel import _native
from cpuaccel._ops import intx_linear as _fake_kernel  # noqa: F401
from cpuaccel.quant._torchao.registration import Registration, arguments

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)

_BITS = {getattr(torch, f"int{bits}"): 4 if bits <= 4 else 8 for bits in range(1, 9)}
"""The bits that a code of torchao's dtype is packed to."""

_registration = Registration()


def register(module: ModuleType) -> None:
    """Register cpuaccel's linear with the IntxUnpackedToInt8Tensor of torchao's module."""
    cls: Any = module.IntxUnpackedToInt8Tensor
    _registration.register(module, cls, lambda before: _linear_before(before, module))


def unregister() -> None:
    """Restore torchao's functions."""
    _registration.unregister()


def weight_reason(weight: Any, module: Any) -> str:
    """Say why cpuaccel's op cannot compute with this weight; empty if it can."""
    if weight.device.type != "cpu":
        return "not on the CPU"
    if weight.dim() != 2 or weight.block_size[0] != 1:
        return "a scale for several rows, or the weight is no matrix"
    kinds = module.IntxUnpackedToInt8TensorActivationQuantization
    if weight.activation_quantization not in (None, kinds.INT8_ASYM_PER_TOKEN):
        return "unsupported quantization of activations"
    return ""


def _linear_before(before: Any, module: Any) -> Any:
    """Return F.linear on cpuaccel's op, or by `before`, which torchao registered."""
    cls = module.IntxUnpackedToInt8Tensor
    from torchao.utils import TorchAOBaseTensor

    op: Any = torch.ops.cpuaccel.intx_linear.default

    def fallback_reason(input: Any, weight: Any) -> str:
        if type(weight) is not cls or isinstance(input, TorchAOBaseTensor):
            return "a subclass of torchao's tensors"
        if input.device.type != "cpu":
            return "not on the CPU"
        if input.dtype not in _DTYPES:
            return "unsupported dtype"
        return weight_reason(weight, module)

    def linear(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        input, weight, bias = arguments(*args, **kwargs)
        reason = fallback_reason(input, weight)
        if reason:
            if not torch.compiler.is_compiling():
                _native.load().count_fallback("intx_linear", reason)
            # torchao reads positional arguments only: a bias passed by name would be dropped.
            return before(func, types, (input, weight, bias), {})
        quantize = weight.activation_quantization is not None
        result: Tensor = op(
            *(input, weight.qdata, weight.scale, weight.zero_point, bias),
            *(_BITS[weight.target_dtype], quantize),
        )
        return result

    return linear
