"""Helpers for nn.Module: list its tensors, wrap a method of its class, mirror its structure."""

from __future__ import annotations

import functools
import types
from typing import Any

import torch
from torch import Tensor, nn


def tensors_of(model: nn.Module) -> list[Tensor]:
    """Return all tensors of a module and its submodules: parameters, buffers, other attributes."""
    found: dict[int, Tensor] = {}
    for module in model.modules():
        plain = [each for each in vars(module).values() if isinstance(each, Tensor)]
        named = [*module._parameters.values(), *module._buffers.values()]
        found.update((id(each), each) for each in (*named, *plain) if each is not None)
    return list(found.values())


def replacement_of(torchs: Any, function: Any) -> Any:
    """Return `function`, which calls torch's function `torchs`, ready to replace it.

    TorchScript compiles the source of `torchs`, which it finds by functools.wraps, but with the
    globals of the function that it gets. So the result has the globals of torch's module, and
    `function` reaches what it needs by its closure.
    """
    made = types.FunctionType(
        *(function.__code__, torchs.__globals__, function.__name__),
        *(function.__defaults__, function.__closure__),
    )
    return functools.wraps(torchs)(made)


def structure_of(model: nn.Module) -> nn.Module:
    """Return modules of the same structure that hold the same tensors as `model`.

    While torch.export traces a module, its parameters are fake ones. They are set in these modules,
    so other threads can go on calling `model`.
    """
    # object.__new__, because that of a GraphModule creates a class.
    mirrors: dict[int, Any] = {
        id(module): object.__new__(type(module))
        for module in model.modules()
        if not isinstance(module, torch.jit.ScriptModule)
    }
    for module in model.modules():
        mirror = mirrors.get(id(module))
        if mirror is not None:
            attributes = {name: _mirrored(each, mirrors) for name, each in vars(module).items()}
            mirror.__dict__.update(attributes)
    mirrored: nn.Module = mirrors.get(id(model), model)
    return mirrored


def _mirrored(value: Any, mirrors: dict[int, Any]) -> Any:
    """Return an attribute with modules replaced by their mirrors; builtin containers are copied."""
    if id(value) in mirrors:
        return mirrors[id(value)]
    if isinstance(value, types.MethodType) and id(value.__self__) in mirrors:
        return types.MethodType(value.__func__, mirrors[id(value.__self__)])
    if type(value) in (list, tuple, set):
        return type(value)(_mirrored(each, mirrors) for each in value)
    if type(value) is dict:
        return {name: _mirrored(each, mirrors) for name, each in value.items()}
    return value
