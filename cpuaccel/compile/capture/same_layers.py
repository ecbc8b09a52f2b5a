"""Says whether two layers differ in nothing but the values of their tensors and their index."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

INDEX_NAMES = frozenset({"layer_idx", "layer_index", "layer_id"})
"""Attributes that may differ: the index of a layer."""

_UNREAD = frozenset({"extra_repr"})
"""Attributes that no forward reads."""

_TENSORS = ("_parameters", "_buffers")
_PLAIN = (bool, int, float, str, bytes, type(None), torch.dtype, torch.device)
_SHARED = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)


def are_same(a: nn.Module, b: nn.Module) -> bool:
    """Say whether the forwards of two modules run the same code, on tensors of the same kinds."""
    return _Comparison().modules(a, b)


def tensors_by_name(module: nn.Module, prefix: str) -> Iterator[tuple[str, Tensor]]:
    """Return all parameters and buffers under each of their names."""
    for named in (module._parameters, module._buffers):
        for name, each in named.items():
            if each is not None:
                yield prefix + name, each
    for name, child in module._modules.items():
        if child is not None:
            yield from tensors_by_name(child, f"{prefix}{name}.")


class _Comparison:
    def __init__(self) -> None:
        # Objects of the one layer, and what stands in their place in the other one.
        self._pairs: dict[int, int] = {}
        self._taken: set[int] = set()

    def modules(self, a: Any, b: Any) -> bool:
        if type(a) is not type(b) or not self._pair(a, b):
            return False
        held, expected = vars(a), vars(b)
        if "forward" in held or list(held) != list(expected):
            return False
        for name, mine in held.items():
            other = expected[name]
            if name in _TENSORS:
                same = list(mine) == list(other) and all(
                    self._tensors(mine[each], other[each]) for each in mine
                )
            elif name == "_modules":
                same = list(mine) == list(other) and all(
                    self._children(mine[each], other[each]) for each in mine
                )
            else:
                is_index = name in INDEX_NAMES and type(mine) is type(other) is int
                same = is_index or name in _UNREAD or self._values(mine, other)
            if not same:
                return False
        return True

    def _pair(self, a: Any, b: Any) -> bool:
        """Take two objects for one another; say whether nothing else was taken for either."""
        if id(a) in self._pairs or id(b) in self._taken:
            return self._pairs.get(id(a)) == id(b)
        self._pairs[id(a)] = id(b)
        self._taken.add(id(b))
        return True

    def _children(self, a: Any, b: Any) -> bool:
        if a is None or b is None:
            return a is b
        if id(a) in self._pairs:  # a module with two names
            return self._pairs[id(a)] == id(b)
        return self.modules(a, b)

    def _tensors(self, a: Any, b: Any) -> bool:
        if a is None or b is None:
            return a is b
        if a is b or type(a) is not type(b) or not self._pair(a, b):
            return False
        if (a.shape, a.dtype, a.device, a.layout, a.requires_grad) != (
            *(b.shape, b.dtype, b.device, b.layout),
            b.requires_grad,
        ):
            return False
        flatten = getattr(a, "__tensor_flatten__", None)
        if flatten is None:
            return a.layout is torch.strided and a.stride() == b.stride()
        names, context = flatten()
        other_names, other_context = b.__tensor_flatten__()
        return (
            list(names) == list(other_names)
            and self._values(context, other_context)
            and all(self._tensors(getattr(a, each), getattr(b, each)) for each in names)
        )

    def _values(self, a: Any, b: Any) -> bool:
        if a is b:
            return not isinstance(a, Tensor)
        if type(a) is not type(b):
            return False
        if isinstance(a, _PLAIN):
            return bool(a == b)
        if isinstance(a, (list, tuple)):
            return len(a) == len(b) and all(map(self._values, a, b))
        if isinstance(a, dict):
            return list(a) == list(b) and all(self._values(a[each], b[each]) for each in a)
        if isinstance(a, set):
            return all(isinstance(each, _PLAIN) for each in a) and a == b
        if isinstance(a, types.MethodType):
            same_owner = self._pairs.get(id(a.__self__)) == id(b.__self__)
            return a.__func__ is b.__func__ and (same_owner or a.__self__ is b.__self__)
        if isinstance(a, functools.partial):
            return self._values((a.func, a.args, a.keywords), (b.func, b.args, b.keywords))
        if isinstance(a, _SHARED):
            return False  # another function or class
        if isinstance(a, (nn.Module, Tensor)):
            return self._pairs.get(id(a)) == id(b)
        try:
            return bool(a == b)  # of most classes, it asks whether both are one object
        except Exception:
            return False
