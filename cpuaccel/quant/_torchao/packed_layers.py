"""Replaces linear layers whose weights torchao quantized by layers that hold them packed only."""

from __future__ import annotations

import dis
import inspect
import itertools
from typing import Any

from torch import Tensor, nn

from cpuaccel.quant import _replaced_layers
from cpuaccel.quant._torchao import int8_weights, intx_weights
from cpuaccel.quant.int8_linear import Int8Linear
from cpuaccel.quant.intx_linear import IntxLinear


def pack_torchao(model: nn.Module) -> nn.Module:
    """Replace the layers in place; `cpuaccel.quant.pack_torchao` has the contract."""
    layers = _replaced_layers.layers_by_name(model, _is_quantized)
    if model in layers:
        raise TypeError("expected a model that contains linear layers, but got a layer itself")
    if not layers:
        raise ValueError(
            "the model has no linear layer with a weight that torchao quantized: expected "
            "nn.Linear with an Int8Tensor or an IntxUnpackedToInt8Tensor (torchao.quantize_)"
        )
    shared = _shared_weights(model)
    _replaced_layers.replace(
        *(model, layers),
        lambda layer, names: _reader_of_weight(model, names) or _reason_to_leave(layer, shared),
        lambda layer, name: _packed_layer(layer).train(layer.training),
        "pack_torchao",
    )
    return model


def _is_quantized(module: nn.Module) -> bool:
    if type(module) is not nn.Linear:
        return False
    weight = module._parameters.get("weight")
    return int8_weights.is_int8(weight) or intx_weights.is_intx(weight)


def _shared_weights(model: nn.Module) -> set[int]:
    """Return the ids of the parameters that several modules have, such as tied embeddings."""
    counts: dict[int, int] = {}
    for module in model.modules():
        for parameter in module._parameters.values():
            counts[id(parameter)] = counts.get(id(parameter), 0) + 1
    return {each for each, count in counts.items() if count > 1}


def _reader_of_weight(model: nn.Module, names: list[str]) -> str:
    """Say that a module around a layer reads the layer's weight itself, as T5's do; else empty."""
    for name in names:
        path, _, leaf = name.rpartition(".")
        owner = model.get_submodule(path)
        code = getattr(inspect.unwrap(type(owner).forward), "__code__", None)
        loaded = [
            each.argval
            for each in (dis.get_instructions(code) if code is not None else ())
            if each.opname == "LOAD_ATTR"
        ]
        if (leaf, "weight") in itertools.pairwise(loaded):
            return f"{type(owner).__name__} reads its weight"
    return ""


def _reason_to_leave(layer: Any, shared: set[int]) -> str:
    weight = layer.weight
    if id(weight) in shared:
        return "its weight is shared with another layer"
    if layer._forward_hooks or layer._forward_pre_hooks or "forward" in layer.__dict__:
        return "it has hooks, or its forward method was replaced"
    if intx_weights.is_intx(weight):
        return intx_weights.weight_reason(weight)
    by_rows = _is_by_rows(weight)
    if by_rows and weight.zero_point is not None and weight.zero_point.any():
        return "the weight has zero points"
    if not by_rows and weight.act_pre_scale is not None:
        return "a weight with groups and a scale of the input"
    return int8_weights.weight_reason(weight)


def _is_by_rows(weight: Any) -> bool:
    """Say whether an int8 weight has a scale for each row, or one for all."""
    scale: Tensor = weight.scale
    return scale.dim() == 2 and scale.shape[1] == 1


def _packed_layer(layer: Any) -> nn.Module:
    weight = layer.weight
    bias = None if layer.bias is None else layer.bias.detach()
    if intx_weights.is_intx(weight):
        return IntxLinear.from_codes(
            *(weight.qdata, weight.scale, weight.zero_point, bias),
            bits=intx_weights.packed_bits(weight),
            int8_activations=weight.activation_quantization is not None,
        )
    if not _is_by_rows(weight):
        return IntxLinear.from_codes(weight.qdata, weight.scale, weight.zero_point, bias, bits=8)
    return Int8Linear(
        *(weight.qdata, weight.scale, bias),
        rounding=int8_weights.rounding_of(weight),
        pre_scale=weight.act_pre_scale,
    )
