"""Registers how torch differentiates cpuaccel's ops: by cpuaccel's kernels or through torch's ops.

Each op has a formula: a function of the same name and arguments that is composed of torch's ops. It
runs where the kernels have no rule: under torch.func and in forward mode. For an op without a
backward, such as the backward of another op (its derivative is a second one), it runs whenever
gradients are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from cpuaccel._compat import AutogradInfo, any_requires_grad, make_autograd_impl
from cpuaccel._transforms import transformed

_torch: Any = torch  # Any: torch's annotations lack names that are used here
_library = _torch.library.Library("cpuaccel", "FRAGMENT")

registered: dict[str, Callable[..., Any]] = {}
"""The formulas of the ops for which `differentiable` was called, by name."""


def differentiable(
    formula: Callable[..., Any],
    backward: Callable[..., Any] | None = None,
    setup_context: Callable[..., None] | None = None,
) -> None:
    """Register how the cpuaccel op with the name of `formula` is differentiated.

    Args:
        formula: takes the op's arguments (with the schema's defaults) and returns the op's results.
        backward: as in torch.library.register_autograd; if None, `formula` is differentiated.
        setup_context: as in torch.library.register_autograd.
    """
    name = formula.__name__
    op = getattr(_torch.ops.cpuaccel, name).default
    by_kernels = make_autograd_impl(op, AutogradInfo(backward, setup_context))

    def kernel(keyset: Any, *inputs: Any) -> Any:
        if transformed() or (
            backward is None and torch.is_grad_enabled() and any_requires_grad(*inputs)
        ):
            return formula(*inputs)
        return by_kernels(keyset, *inputs)

    registered[name] = formula
    _library.impl(name, kernel, "Autograd", with_keyset=True)
