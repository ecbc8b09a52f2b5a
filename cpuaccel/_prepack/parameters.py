"""PackedParameters: the `_parameters` dict of a module with packed weights.

Reading a packed weight from it (as an attribute of the module, by `parameters()`, in torch's own
functions) returns a plain parameter. From then on the module computes with that parameter, so
changes to it take effect.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

MakePlain = Callable[[nn.Module, str], None]


def _unpacked_first(name: str) -> Any:
    plain = getattr(dict, name)

    def method(self: PackedParameters, *arguments: Any, **keywords: Any) -> Any:
        return plain(self.unpacked(), *arguments, **keywords)

    method.__name__ = name
    return method


class PackedParameters(dict[str, Any]):
    """Has None in place of packed weights.

    Every access to a value except `dict.get(self)` first makes the module plain, if the value is,
    or may be, a packed one.
    """

    def __init__(self, owner: nn.Module, values: dict[str, Any], make_plain: MakePlain) -> None:
        super().__init__(values)
        self._owner = weakref.ref(owner)
        self._make_plain = make_plain

    def unpacked(self) -> dict[str, Any]:
        """Make the module plain and return its plain dict of parameters."""
        owner = self._owner()
        if owner is None:
            return self
        self._make_plain(owner, "a packed weight was read")
        plain: dict[str, Any] = owner.__dict__["_parameters"]
        return plain

    def _is_packed(self, name: object) -> bool:
        owner = self._owner()
        return owner is not None and (
            owner.__dict__["_parameters"] is not self
            or name in owner.__dict__.get("_packed_weights", ())
        )

    def __getitem__(self, name: str) -> Any:
        return self.unpacked()[name] if self._is_packed(name) else super().__getitem__(name)

    def __setitem__(self, name: str, value: Any) -> None:
        if self._is_packed(name):
            self.unpacked()[name] = value
        else:
            super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        if self._is_packed(name):
            del self.unpacked()[name]
        else:
            super().__delitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        return (
            self.unpacked().get(name, default)
            if self._is_packed(name)
            else super().get(name, default)
        )

    def __iter__(self) -> Iterator[str]:
        # With this method overridden, C code asks for keys and items one by one and does not bypass
        # this class.
        return super().__iter__()

    items = _unpacked_first("items")
    values = _unpacked_first("values")
    pop = _unpacked_first("pop")
    popitem = _unpacked_first("popitem")
    setdefault = _unpacked_first("setdefault")
    update = _unpacked_first("update")
    clear = _unpacked_first("clear")
    copy = _unpacked_first("copy")
    __eq__ = _unpacked_first("__eq__")
    __ne__ = _unpacked_first("__ne__")
    __or__ = _unpacked_first("__or__")
    __ror__ = _unpacked_first("__ror__")
    __ior__ = _unpacked_first("__ior__")
    __hash__ = None

    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (dict(self.unpacked()),)
