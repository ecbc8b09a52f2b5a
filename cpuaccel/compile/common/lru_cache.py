"""A cache with least recently used (LRU) eviction."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class LRUCache(Generic[T]):
    """A dictionary of the `max_size` keys that were used last."""

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._values: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable) -> T | None:
        """Return the value of a key, and mark the key as the most recently used."""
        value = self._values.get(key)
        if value is not None:
            with suppress(KeyError):  # another thread may have evicted it
                self._values.move_to_end(key)
        return value

    def put(self, key: Hashable, value: T) -> None:
        """Add a value; if the dictionary is full, evict the least recently used one."""
        with suppress(KeyError):
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self._max_size:
                self._values.popitem(last=False)

    def clear(self) -> None:
        """Remove all values."""
        self._values.clear()

    def __len__(self) -> int:
        return len(self._values)
