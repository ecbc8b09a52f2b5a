"""Rewrites convert_fx models to plain tensors: `lower_model` is `cpuaccel.quant.lower`."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.fx import GraphModule

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
            return lower_module(_checked(model))
        return _with_lowered_parts(model)


def _with_lowered_parts(model: nn.Module) -> nn.Module:
    parts = [name for name, part in model.named_modules() if isinstance(part, GraphModule)]
    outermost = [name for name in parts if not any(name.startswith(f"{p}.") for p in parts)]
    if not outermost:
        raise TypeError(
            "cpuaccel.quant.lower: model: expected what convert_fx returns, or a module with such "
            f"parts, got {type(model).__name__} with none"
        )
    lowered = {name: lower_module(_checked(model.get_submodule(name))) for name in outermost}
    # The parts that are replaced are not copied first.
    memo = {id(model.get_submodule(name)): part for name, part in lowered.items()}
    return copy.deepcopy(model, memo)


def _checked(model: nn.Module) -> GraphModule:
    assert isinstance(model, GraphModule)
    if "_observed_graph_module_attrs" in model.meta:
        raise ValueError(
            "cpuaccel.quant.lower: model: it is prepared but not converted; call convert_fx first"
        )
    if model.training:
        raise ValueError(
            "cpuaccel.quant.lower: model: it is in training mode; call model.eval() first"
        )
    return model
