"""Whether the calls of this thread run models without the plans that they have for eager calls.

`frontend/eager_plans.py` gives PT2E models and loaded ones such plans. What is compared with the
model, or timed against it, has to call the model itself.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar

from cpuaccel.compile.common.context_values import holding

_plain: ContextVar[bool] = ContextVar("plain", default=False)


def are_plain() -> bool:
    """Return whether the model itself has to run."""
    return _plain.get()


def plain_calls() -> AbstractContextManager[None]:
    """Run models themselves in the block."""
    return holding(_plain, True)
