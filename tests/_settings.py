"""Settings of cpuaccel for the length of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def setting(name: str, value: Any) -> Iterator[None]:
    """Give a setting of `cpuaccel.config` a value for a block."""
    from cpuaccel import config

    before = config.get(name)
    config.set(name, value)
    try:
        yield
    finally:
        config.set(name, before)
