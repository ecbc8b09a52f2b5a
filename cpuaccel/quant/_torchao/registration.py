"""Replaces functions of a class of torchao's tensors, by torchao's own extension points.

`implements` registers a function for an op such as aten.linear, and `implements_torch_function` one
for a function such as F.linear.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from cpuaccel import _native
from cpuaccel._compat import OpOverload

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)

Function = Callable[[Any, Any, Any, Any], Any]
"""What torchao calls: function(func, types, args, kwargs)."""

Maker = Callable[[Function | None], Function]
"""Makes cpuaccel's function from torchao's, of which it may have none."""

LINEAR = (torch.ops.aten.linear.default, torch.nn.functional.linear)


class Registration:
    """The functions that torchao had before, while cpuaccel's are registered."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, Any, Any, Any]] = []
        self.module: Any = None
        """The module of the class, while cpuaccel's functions are registered with it."""

    def register(
        self,
        module: Any,
        cls: Any,
        makers: Mapping[Any, Maker],
        missing: Collection[Any] = (),
    ) -> None:
        """Register cpuaccel's functions with the class of torchao's module.

        Args:
            module: torchao's module.
            cls: A class of it.
            makers: For each op or function of torch, what makes cpuaccel's.
            missing: The ones that are registered although torchao has none. Others are then left
                out: a torchao may register its function elsewhere.
        """
        if self._replaced:
            return
        for key, make in makers.items():
            is_op = isinstance(key, OpOverload)
            table = cls._ATEN_OP_TABLE[cls] if is_op else cls._TORCH_FN_TABLE[cls]
            implements = cls.implements if is_op else cls.implements_torch_function
            before = table.get(key)
            if before is None and key not in missing:
                continue
            implements(key)(make(before))
            self._replaced.append((table, key, before, table[key]))
            self.module = module

    def unregister(self) -> None:
        """Restore torchao's functions, unless someone else replaced cpuaccel's."""
        for table, key, before, cpuaccels in self._replaced:
            if table.get(key) is not cpuaccels:
                continue
            if before is None:
                del table[key]
            else:
                table[key] = before
        self._replaced.clear()
        self.module = None


def linear_by(
    cls: Any,
    op: str,
    weight_reason: Callable[[Any], str],
    compute: Callable[[Tensor, Any, Tensor | None], Tensor],
) -> dict[Any, Maker]:
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

    def make(before: Function | None) -> Function:
        assert before is not None

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

    return dict.fromkeys(LINEAR, make)


def _arguments(input: Any, weight: Any, bias: Tensor | None = None) -> tuple[Any, Any, Any]:
    """Return the arguments of F.linear, of which some may be given by name."""
    return input, weight, bias
