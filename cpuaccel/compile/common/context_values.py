"""Values of context variables that hold in a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

_Held = TypeVar("_Held")


@contextmanager
def holding(variable: ContextVar[_Held], value: _Held) -> Iterator[None]:
    """Let a variable have this value in the block, and its value before afterwards."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
