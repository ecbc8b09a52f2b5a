"""Rewrites int8 models to plain tensors: `lower_model` is `cpuaccel.quant.lower`."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.fx import GraphModule

from cpuaccel._modules import tensors_of
from cpuaccel.quant._fusion.model import check_converted, hooks_of
from cpuaccel.quant._lowering import eager
from cpuaccel.quant._lowering.walk import UNLOWERED, lower_module

__all__ = ["UNLOWERED", "lower_model"]


def lower_model(model: nn.Module) -> nn.Module:
    """See `cpuaccel.quant.lower`."""
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"cpuaccel.quant.lower: model: expected a torch.nn.Module, got {type(model).__name__}"
        )
    with torch.no_grad():
        if isinstance(model, GraphModule):
            return _lowered(model)
        return _with_lowered_parts(model)


def _with_lowered_parts(model: nn.Module) -> nn.Module:
    traced = eager.parts_of(model)
    if model in traced:
        lowered = _lowered(traced[model])
        vars(lowered).update(hooks_of(model))
        return lowered
    converted = [module for module in model.modules() if isinstance(module, GraphModule)]
    parts: dict[nn.Module, GraphModule] = {module: module for module in converted}
    parts |= traced
    paths = {path: module for path, module in model.named_modules() if module in parts}
    outermost = [part for n, part in paths.items() if not any(n.startswith(f"{p}.") for p in paths)]
    if not outermost:
        raise TypeError(
            "cpuaccel.quant.lower: model: expected what convert_fx or torch.ao.quantization.convert"
            f" returns, or a module with such parts, got {type(model).__name__} with none"
        )
    # deepcopy copies neither the replaced parts nor what the result shares.
    memo: dict[int, object] = {id(part): _part(part, parts[part]) for part in outermost}
    hooks = [table for module in model.modules() for table in hooks_of(module).values()]
    memo |= {id(each): each for each in (*tensors_of(model), *hooks)}
    return copy.deepcopy(model, memo)


def _part(part: nn.Module, graph: GraphModule) -> GraphModule:
    """Return the lowered form of a part of a model, with the part's hooks and plain attributes."""
    lowered = _lowered(graph)
    vars(lowered).update(hooks_of(part))
    for name, value in vars(part).items():
        if isinstance(value, (bool, int, float, str)) and not hasattr(lowered, name):
            setattr(lowered, name, value)
    return lowered


def _lowered(model: GraphModule) -> GraphModule:
    check_converted("cpuaccel.quant.lower", model)
    lowered = lower_module(model)
    vars(lowered).update(hooks_of(model))
    return lowered
