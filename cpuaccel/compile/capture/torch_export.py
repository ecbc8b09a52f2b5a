"""Calls torch.export, under a lock and with a time limit."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.export import dynamic_shapes as _torch_shapes
from torch.overrides import TorchFunctionMode

from cpuaccel._compat import (
    combine_args,
    shapes_map_with_path,
    tree_flatten,
    tree_leaves,
    tree_unflatten,
)
from cpuaccel._modules import tensors_of
from cpuaccel.compile.common.context_values import holding

_torch_export: Any = torch.export
_shapes: Any = _torch_shapes  # its annotations lack what is used here

lock = threading.RLock()
"""torch.export patches torch itself while it traces: one thread at a time."""


_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


def time_limit(seconds: float) -> AbstractContextManager[None]:
    """Limit traces in the block to this many seconds of thread time.

    Raises:
        TimeoutError: the limit was exceeded.
    """
    return holding(_deadline, time.thread_time() + seconds)


def check_time() -> None:
    """Raise TimeoutError if the limit of `time_limit` is exceeded."""
    if time.thread_time() > _deadline.get():
        raise TimeoutError("the trace takes too long")


class _Watched(TorchFunctionMode):
    """Checks the time limit before each torch function."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        check_time()
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class DynamicShapes:
    """The sizes that vary, in the format of torch.export's dynamic_shapes."""

    shapes: Any


Dimensions = Collection[tuple[int, int]]
"""Dimensions of tensors, as (leaf of a call, dimension)."""

Dynamic = Dimensions | DynamicShapes
"""Which sizes vary."""


def exported(
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic: Dynamic = (),
) -> ExportedProgram:
    """Return the torch.export program of `module` for such a call.

    The dimensions in `dynamic` stay symbols unless the module specializes them. `dynamic` can also
    be torch.export's dynamic_shapes.

    Raises:
        Exception: what torch.export raises.
    """
    args, kwargs = _distinct_arguments(module, args, kwargs)
    if isinstance(dynamic, DynamicShapes):
        shapes = dynamic.shapes
    else:
        shapes = _by_tensor(module, args, kwargs, dynamic) if dynamic else None
    watched = _Watched() if _deadline.get() < math.inf else nullcontext()
    with lock, torch.no_grad(), watched:
        return torch.export.export(module, args, kwargs, dynamic_shapes=shapes, strict=False)


def _by_tensor(module: nn.Module, args: Any, kwargs: Any, dynamic: Dimensions) -> Any:
    """Return `dynamic` in torch.export's format."""
    shapes: Any = _torch_export.ShapesCollection()
    leaves = tree_leaves((args, kwargs))
    for leaf in sorted({leaf for leaf, _ in dynamic}):
        shapes[leaves[leaf]] = {dim: Dim.AUTO for number, dim in dynamic if number == leaf}
    return shapes.dynamic_shapes(module, args, kwargs)


def names_of(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic
) -> dict[tuple[int, int], str]:
    """Return the names of the sizes in `dynamic`, by (leaf, dimension), if it has names."""
    if not isinstance(dynamic, DynamicShapes):
        return {}
    args, kwargs = _distinct_arguments(module, args, kwargs)
    numbers = {id(leaf): number for number, leaf in enumerate(tree_leaves((args, kwargs)))}
    names: dict[tuple[int, int], str] = {}

    def see(path: Any, leaf: Any, shape: Any) -> None:
        sizes = shape if isinstance(shape, Mapping) else dict(enumerate(shape or ()))
        for dim, size in sizes.items():
            if isinstance(leaf, Tensor) and isinstance(size, Dim):
                names[numbers[id(leaf)], dim] = size.__name__

    given: Any = combine_args(module, args, kwargs)
    if isinstance(dynamic.shapes, (tuple, list)):
        given = type(dynamic.shapes)(given.values())
    shapes_map_with_path(see, given, dynamic.shapes, tree_name="inputs")
    return names


def _distinct_arguments(module: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return arguments that are all different objects, and not tensors of the module.

    torch.export takes an object that is passed twice for one input: the graph would read only one
    of the two arguments.
    """
    leaves, spec = tree_flatten((args, kwargs))
    seen = {id(each): each for each in tensors_of(module)}
    for number, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor):
            own = leaf.detach() if id(leaf) in seen else leaf
            leaves[number] = seen[id(own)] = own
    found: tuple[Any, Any] = tree_unflatten(leaves, spec)
    return found
