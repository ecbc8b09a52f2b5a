"""Replaces gptqmodel's layers in a model."""

from __future__ import annotations

from torch import nn

from cpuaccel import _log, memory
from cpuaccel.quant._gptqmodel.layers import is_layer, packed_layer, reason_to_leave


def convert_gptqmodel(model: nn.Module, int8_activations: bool) -> nn.Module:
    """Replace the layers in place; `cpuaccel.quant.convert_gptqmodel` has the contract."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected model to be a torch.nn.Module, got {type(model).__name__}")
    if is_layer(model):
        raise TypeError(
            f"expected a model that contains gptqmodel's layers, but got a {type(model).__name__}"
        )
    names: dict[nn.Module, list[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        if is_layer(module):
            names.setdefault(module, []).append(name)
    if not names:
        raise ValueError(
            "the model has no layer of gptqmodel for torch: expected modules of the class "
            "gptqmodel's TorchLinear or AwqTorchLinear (backend GPTQ_TORCH or AWQ_TORCH)"
        )
    while names:
        layer, of_layer = names.popitem()  # so that its buffers are freed when it is replaced
        reason = reason_to_leave(layer)
        if not reason:
            try:
                packed = packed_layer(layer, of_layer[0], int8_activations)
            except (ValueError, RuntimeError) as error:
                reason = str(error)
        if reason:
            _log.logger.warning("convert_gptqmodel: %s stays: %s", of_layer[0], reason)
            continue
        for name in of_layer:
            model.set_submodule(name, packed)
        del layer, packed
    memory.empty_cache()  # of the codes of single layers, which the model does not need again
    return model
