"""Replaces F.linear of a class of torchao's tensors, by torchao's own extension points.

`implements` registers a function for aten.linear, and `implements_torch_function` one for F.linear.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cpuaccel import _native

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)

Linear = Callable[[Any, Any, Any, Any], Any]
"""What torchao calls: function(func, types, args, kwargs)."""


class Registration:
    """The functions that torchao had before, while cpuaccel's are registered."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, Any, Any, Any]] = []
        self.module: Any = None
        """The module of the class, while cpuaccel's linear is registered with it."""

    def register(self, module: Any, cls: Any, linear_before: Callable[[Linear], Linear]) -> None:
        """Register linear_before(torchao's function) with the class of torchao's module."""
        if self._replaced:
            return
        aten, function = torch.ops.aten.linear.default, torch.nn.functional.linear
        for table, key, implements in (
            (cls._ATEN_OP_TABLE[cls], aten, cls.implements),
            (cls._TORCH_FN_TABLE[cls], function, cls.implements_torch_function),
        ):
            before = table.get(key)
            if before is None:  # a torchao that registers its linear elsewhere
                continue
            implements(key)(linear_before(before))
            self._replaced.append((table, key, before, table[key]))
            self.module = module

    def unregister(self) -> None:
        """Restore torchao's functions, unless someone else replaced cpuaccel's."""
        for table, key, before, cpuaccels in self._replaced:
            if table.get(key) is cpuaccels:
                table[key] = before
        self._replaced.clear()
        self.module = None


def linear_by(
    cls: Any,
    op: str,
    weight_reason: Callable[[Any], str],
    compute: Callable[[Tensor, Any, Tensor | None], Tensor],
) -> Callable[[Linear], Linear]:
    """Return what makes cpuaccel's F.linear from torchao's, for Registration.register.

    Args:
        cls: The class of the weights.
        op: The op of cpuaccel, under which fallbacks are counted.
        weight_reason: Says why the op cannot compute with a weight; empty if it can.
        compute: The linear layer of an input, a weight and a bias.
    """
    from torchao.utils import TorchAOBaseTensor

    def fallback_reason(input: Any, weight: Any) -> str:
        if type(weight) is not cls or isinstance(input, TorchAOBaseTensor):
            return "a subclass of torchao's tensors"
        if input.device.type != "cpu":
            return "not on the CPU"
        if input.dtype not in _DTYPES:
            return "unsupported dtype"
        return weight_reason(weight)

    def make(before: Linear) -> Linear:
        def linear(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            input, weight, bias = _arguments(*args, **kwargs)
            reason = fallback_reason(input, weight)
            if reason:
                if not torch.compiler.is_compiling():
                    _native.load().count_fallback(op, reason)
                # torchao reads positional arguments only: a bias passed by name would be dropped.
                return before(func, types, (input, weight, bias), {})
            return compute(input, weight, bias)

        linear.__module__ = compute.__module__  # torchao's tables then show who registered it
        return linear

    return make


def _arguments(input: Any, weight: Any, bias: Tensor | None = None) -> tuple[Any, Any, Any]:
    """Return the arguments of F.linear, of which some may be given by name."""
    return input, weight, bias
