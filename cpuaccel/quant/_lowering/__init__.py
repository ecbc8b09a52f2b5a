"""Rewrites convert_fx models to plain tensors: `lower_model` is `cpuaccel.quant.lower`."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.fx import GraphModule

from cpuaccel._modules import tensors_of
from cpuaccel.quant._fusion.model import check_converted, hooks_of
from cpuaccel.quant._lowering.walk import LEFT, lower_module

__all__ = ["LEFT", "lower_model"]


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
    parts = {n: part for n, part in model.named_modules() if isinstance(part, GraphModule)}
    outermost = [part for n, part in parts.items() if not any(n.startswith(f"{p}.") for p in parts)]
    if not outermost:
        raise TypeError(
            "cpuaccel.quant.lower: model: expected what convert_fx returns, or a module with such "
            f"parts, got {type(model).__name__} with none"
        )
    # The parts that are replaced are not copied first, nor is what is shared.
    memo: dict[int, object] = {id(part): _lowered(part) for part in outermost}
    hooks = [table for module in model.modules() for table in hooks_of(module).values()]
    memo |= {id(each): each for each in (*tensors_of(model), *hooks)}
    return copy.deepcopy(model, memo)


def _lowered(model: GraphModule) -> GraphModule:
    check_converted("cpuaccel.quant.lower", model)
    lowered = lower_module(model)
    vars(lowered).update(hooks_of(model))
    return lowered
