"""Whether the calls of this thread run models without the plans that they have for eager calls.

`frontend/eager_plans.py` gives PT2E models and loaded ones such plans. What is compared with the
model, or timed against it, has to call the model itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_plain: ContextVar[bool] = ContextVar("plain", default=False)


def are_plain() -> bool:
    """Return whether the model itself has to run."""
    return _plain.get()


@contextmanager
def plain_calls() -> Iterator[None]:
    """Run models themselves in the block."""
    token = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(token)
