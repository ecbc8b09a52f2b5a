"""Recognizes torch.ao's quantized modules: those of models that eager mode quantized."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn
from torch.fx import GraphModule

from cpuaccel.quant._torch_ao import kind_of

_PACKAGES = ("torch.ao.nn.quantized.", "torch.ao.nn.intrinsic.quantized.")
_OTHERS = ("torch.ao.nn.quantized.reference.",)
_RECURRENT = ".modules.rnn."
"""LSTM, GRU and their cells, which have no lowering."""
_OF_FLOATS = frozenset(["quantized.FloatFunctional", "quantized.FXFloatFunctional"])


def is_quantized_module(module: nn.Module) -> bool:
    """Return whether `module` computes with quantized weights or on quantized tensors."""
    name = f"{type(module).__module__}."
    if not name.startswith(_PACKAGES) or name.startswith(_OTHERS) or name.endswith(_RECURRENT):
        return False
    return kind_of(module) not in _OF_FLOATS


def holds_quantized(model: nn.Module) -> bool:
    """Return whether `model` is or contains a quantized module, outside of convert_fx's graphs."""
    return any(is_quantized_module(module) for module in _outside_graphs(model))


def scales_of(model: nn.Module) -> Iterator[torch.Tensor]:
    """Yield the one-element tensors of its quantized modules: scales and zero points."""
    for module in _outside_graphs(model):
        if is_quantized_module(module):
            yield from (each for each in module.buffers(recurse=False) if each.numel() == 1)


def _outside_graphs(model: nn.Module) -> Iterator[nn.Module]:
    if not isinstance(model, GraphModule):
        yield model
        for child in model.children():
            yield from _outside_graphs(child)
