"""torch.export, as everything here calls it."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.utils._pytree import tree_flatten, tree_unflatten

from cpuaccel._modules import tensors_of

lock = threading.RLock()
"""torch.export patches torch itself while it traces: one thread at a time."""


def exported(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExportedProgram:
    """Return what torch.export makes of `module` for such a call.

    Raises:
        Exception: what torch.export raises.
    """
    args, kwargs = _told_apart(module, args, kwargs)
    with lock, torch.no_grad():
        return torch.export.export(module, args, kwargs, strict=False)


def _told_apart(module: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return arguments that are all different objects, none of them the module's own.

    What torch.export is given twice it takes for one: the graph would read one of the two places.
    """
    leaves, spec = tree_flatten((args, kwargs))
    seen = {id(each): each for each in tensors_of(module)}
    for number, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor):
            own = leaf.detach() if id(leaf) in seen else leaf
            leaves[number] = seen[id(own)] = own
    found: tuple[Any, Any] = tree_unflatten(leaves, spec)
    return found
