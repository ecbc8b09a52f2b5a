"""Replaces gptqmodel's layers in a model."""

from __future__ import annotations

from torch import nn

from cpuaccel.quant import _replaced_layers
from cpuaccel.quant._gptqmodel.layers import is_layer, packed_layer, reason_to_leave


def convert_gptqmodel(model: nn.Module, int8_activations: bool) -> nn.Module:
    """Replace the layers in place; `cpuaccel.quant.convert_gptqmodel` has the contract."""
    layers = _replaced_layers.layers_by_name(model, is_layer)
    if model in layers:
        raise TypeError(
            f"expected a model that contains gptqmodel's layers, but got a {type(model).__name__}"
        )
    if not layers:
        raise ValueError(
            "the model has no layer of gptqmodel for torch: expected modules of the class "
            "gptqmodel's TorchLinear or AwqTorchLinear (backend GPTQ_TORCH or AWQ_TORCH)"
        )
    _replaced_layers.replace(
        *(model, layers, lambda layer, names: reason_to_leave(layer)),
        lambda layer, name: packed_layer(layer, name, int8_activations),
        "convert_gptqmodel",
    )
    return model
