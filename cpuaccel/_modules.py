"""What modules hold."""

from __future__ import annotations

import functools
import types
from typing import Any

import torch
from torch import Tensor, nn


def tensors_of(model: nn.Module) -> list[Tensor]:
    """Return the parameters, the buffers and what else of a module and its layers is a tensor."""
    found: dict[int, Tensor] = {}
    for module in model.modules():
        plain = [each for each in vars(module).values() if isinstance(each, Tensor)]
        named = [*module._parameters.values(), *module._buffers.values()]
        found.update((id(each), each) for each in (*named, *plain) if each is not None)
    return list(found.values())


def over(torchs: Any, function: Any) -> Any:
    """Return `function`, which calls torch's function `torchs`, to be put in its place.

    TorchScript compiles the source of `torchs`, which `wraps` names, with the globals of what it
    finds: so the result has those of torch's module, and `function` reaches what it needs by its
    closure.
    """
    made = types.FunctionType(
        *(function.__code__, torchs.__globals__, function.__name__),
        *(function.__defaults__, function.__closure__),
    )
    return functools.wraps(torchs)(made)


def structure_of(model: nn.Module) -> nn.Module:
    """Return modules of the same structure that hold the very tensors of `model`.

    While torch.export traces a module, its parameters are fake ones: in these, and not under the
    hands of other threads that call the model.
    """
    # Without __new__: that of a GraphModule makes a class.
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
    """Return an attribute with the mirrors of modules in it; containers of torch's own are new."""
    if id(value) in mirrors:
        return mirrors[id(value)]
    if isinstance(value, types.MethodType) and id(value.__self__) in mirrors:
        return types.MethodType(value.__func__, mirrors[id(value.__self__)])
    if type(value) in (list, tuple, set):
        return type(value)(_mirrored(each, mirrors) for each in value)
    if type(value) is dict:
        return {name: _mirrored(each, mirrors) for name, each in value.items()}
    return value
