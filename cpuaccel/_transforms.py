"""Detects torch.func transforms and forward-mode derivatives, for which calls fall back to torch.

cpuaccel's kernels have no rules for them; torch's own ops do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from cpuaccel._compat import (
    disable_current_modes,
    dispatch_stack_length,
    forward_ad_level,
    functorch_interpreter,
)

REASON = "torch.func or forward-mode derivatives"


def transformed() -> bool:
    """Return whether torch.func transforms this call, or tensors may carry tangents."""
    return functorch_interpreter() is not None or forward_ad_level() >= 0


@contextmanager
def suspended() -> Iterator[None]:
    """Suspend the active transforms and dispatch modes, for objects that outlive them."""
    if torch.compiler.is_compiling() or (
        functorch_interpreter() is None and not dispatch_stack_length()
    ):
        yield
        return
    from cpuaccel._compat import functorch_stack_cleared

    with functorch_stack_cleared(), disable_current_modes():
        yield
