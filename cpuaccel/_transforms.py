"""Detects torch.func transforms and forward-mode derivatives, for which calls fall back to torch.

cpuaccel's kernels have no rules for them; torch's own ops do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd import forward_ad

_torch: Any = torch  # Any: torch's annotations lack names that are used here
_interpreter = _torch._C._functorch.peek_interpreter_stack
_forward: Any = forward_ad

REASON = "torch.func or forward-mode derivatives"


def transformed() -> bool:
    """Return whether torch.func transforms this call, or tensors may carry tangents."""
    return _interpreter() is not None or _forward._current_level >= 0


@contextmanager
def suspended() -> Iterator[None]:
    """Suspend the active transforms and dispatch modes, for objects that outlive them."""
    if torch.compiler.is_compiling() or (
        _interpreter() is None and not _torch._C._len_torch_dispatch_stack()
    ):
        yield
        return
    from torch._functorch import pyfunctorch
    from torch.utils import _python_dispatch

    with (
        pyfunctorch.temporarily_clear_interpreter_stack(),
        _python_dispatch._disable_current_modes(),
    ):
        yield
