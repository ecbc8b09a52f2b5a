"""Linear layers with weights of up to 8 bits by groups, of torchao and of cpuaccel."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

quantization = pytest.importorskip("torchao.quantization")
pytest.importorskip("torchao.quantization.quantize_.workflows.intx.intx_unpacked_to_int8_tensor")


def config(bits: int, granularity: Any, int8_rows: bool = False, **options: Any) -> Any:
    """Return torchao's config of such layers."""
    dtype = getattr(torch, f"int{bits}")
    if int8_rows:
        return quantization.Int8DynamicActivationIntxWeightConfig(
            weight_dtype=dtype, weight_granularity=granularity, **options
        )
    return quantization.IntxWeightOnlyConfig(weight_dtype=dtype, granularity=granularity, **options)


def counted_op(int8_rows: bool) -> str:
    """Return the name that a call of such a layer is counted under."""
    return "linear_dynamic.cpuaccel" if int8_rows else "packed_linear.cpuaccel"


def packed(model: nn.Module) -> nn.Module:
    """Replace torchao's layers of `model` by cpuaccel's IntxLinear with the same weights."""
    from cpuaccel.quant.intx_linear import IntxLinear

    for name, child in list(model.named_children()):
        weight: Any = getattr(child, "weight", None)
        if isinstance(child, nn.Linear) and hasattr(weight, "qdata"):
            layer = IntxLinear.from_codes(
                *(weight.qdata, weight.scale, weight.zero_point, child.bias),
                bits=4 if weight.target_dtype in (torch.int3, torch.int4) else 8,
                int8_activations=weight.activation_quantization is not None,
            )
            setattr(model, name, layer.eval())
        else:
            packed(child)
    return model
