"""Reads gptqmodel's layers for torch: TorchLinear (GPTQ) and AwqTorchLinear.

Their buffers are those of a checkpoint (`_checkpoints/gptq.py`, `awq.py`). Zero points of GPTQ are
stored as they are used: gptqmodel converts checkpoints of the format "gptq" when it loads them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from cpuaccel.quant._checkpoints.awq import codes_of as awq_codes
from cpuaccel.quant._checkpoints.gptq import codes_of as gptq_codes
from cpuaccel.quant._checkpoints.load import LayerTensors
from cpuaccel.quant._gptqmodel.names import MODULES
from cpuaccel.quant.intx_linear import IntxLinear

_PARTS = ("qweight", "qzeros", "scales", "g_idx")


class _Layer:
    """What errors name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def error(self, text: str) -> ValueError:
        return ValueError(f"{self._name}: {text}")


def is_layer(module: nn.Module) -> bool:
    """Say whether `module` is a layer of gptqmodel for torch."""
    cls = type(module)
    return cls.__name__ in MODULES.get(cls.__module__, ())


def reason_to_leave(layer: Any) -> str:
    """Say why a layer stays gptqmodel's, as far as its buffers need not be read; else empty."""
    buffers: list[Any] = [getattr(layer, name, None) for name in _PARTS[:3]]
    if any(buffer is None for buffer in buffers):
        return "a buffer is missing"
    if any(buffer.device.type != "cpu" for buffer in buffers):
        return "not on the CPU"
    if getattr(layer, "adapter", None) is not None:
        return "an adapter"
    if getattr(layer, "online_full_had", False) or getattr(layer, "online_partial_had", False):
        return "a rotation of the input"
    return ""


def packed_layer(layer: Any, name: str, int8_activations: bool = False) -> IntxLinear:
    """Pack the weight of a layer; the result has the layer's bias.

    Raises:
        ValueError: a buffer has another type or shape than the format has.
        RuntimeError: the kernels do not have the size of the groups.
    """
    buffers = {part: getattr(layer, part, None) for part in _PARTS}
    tensors = LayerTensors(
        _Layer(name),
        "its",
        {part: buffer for part, buffer in buffers.items() if buffer is not None},
        layer.out_features,
        layer.in_features,
    )
    if type(layer).__name__.startswith("Awq"):
        codes = awq_codes(tensors)
    else:
        codes, _ = gptq_codes(tensors, 0, planar=getattr(layer, "planar", False))
    bias = getattr(layer, "bias", None)
    packed = codes.layer(None if bias is None else bias.detach(), int8_activations)
    return packed.train(layer.training)


def state_of(layer: Any) -> tuple[Any, ...]:
    """Return what changes when a buffer of the layer is replaced or written to."""
    buffers = (getattr(layer, name, None) for name in (*_PARTS, "bias"))
    return tuple(
        None if buffer is None else (buffer.data_ptr(), _version(buffer), buffer.dtype)
        for buffer in buffers
    )


def _version(tensor: torch.Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version
