"""Reasons why a model cannot be traced, found before torch.export sees it.

torch.export would run the hooks of models that torch.distributed shards (DTensor, FSDP) or wraps
(DDP). They start collectives on fake tensors, and FSDP's modules are unusable after that.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from cpuaccel.compile.capture.module_attributes import layer_with_hooks

_DISTRIBUTED = ("torch.distributed.", "torch.nn.parallel.")
_HOOKS = ("_forward_pre_hooks", "_forward_hooks")


def untraceable_reason(model: nn.Module) -> str:
    """Return the reason, or "" if nothing speaks against a trace."""
    if is_distributed(model):
        return "torch.distributed runs its layers in several processes: use torch.compile"
    where = layer_with_hooks(model)
    return f"{where} has forward hooks" if where else ""


def is_distributed(model: nn.Module) -> bool:
    """Say whether a parameter, a layer or a forward hook is torch.distributed's."""
    return any(map(_is_distributed, model.modules()))


def _is_distributed(module: nn.Module) -> bool:
    state = vars(module)
    values: list[Any] = [module, *state.get("_parameters", {}).values()]
    if any(type(each).__module__.startswith(_DISTRIBUTED) for each in values):
        return True
    hooks = (hook for name in _HOOKS for hook in state.get(name, {}).values())
    return any((getattr(hook, "__module__", None) or "").startswith(_DISTRIBUTED) for hook in hooks)
