"""What a module holds, to tell whether something in it was replaced since."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn

from cpuaccel import _native

_OWN = ("_parameters", "_buffers", "_modules")


class Tables:
    """Dictionaries, to tell whether they hold the very objects that they held, in that order."""

    def __init__(self, tables: Sequence[dict[str, Any]]) -> None:
        self._tables = tuple({id(each): each for each in tables}.values())
        self._end = object()
        self._objects = tuple(_objects(self._tables, self._end))
        self._versions = bytearray(8 * len(self._tables))

    def are_as_before(self) -> bool:
        """Whether they do, in some nanoseconds a dictionary."""
        return _native.load().same_objects(self._tables, self._objects, self._end, self._versions)


class Attributes:
    """The parameters, buffers, layers and other attributes of a module and its layers.

    Of attributes that are named, these and the layers alone. Tensors are not read: what is written
    in place is for others to notice.
    """

    def __init__(self, model: nn.Module, *only: str) -> None:
        modules = list(model.modules())
        whole = [
            names for module in modules for names in ([module._modules] if only else _names(module))
        ]
        named = [vars(module) for module in modules if any(name in vars(module) for name in only)]
        self._sizes = [(names, len(names)) for names in whole]
        self._held = [(names, name, value) for names in whole for name, value in names.items()]
        self._held += [
            (names, name, names[name]) for names in named for name in only if name in names
        ]
        self._tables = Tables([*whole, *named])

    def are_as_before(self) -> bool:
        """Whether each is the very object that it was."""
        if self._tables.are_as_before():
            return True
        # Perhaps in another order, or something else that does not count.
        return all(names.get(name) is value for names, name, value in self._held) and all(
            len(names) == size for names, size in self._sizes
        )


def _names(module: nn.Module) -> Iterator[dict[str, Any]]:
    for own in _OWN:
        yield module.__dict__[own]
    # What torch's own layers have beside these are numbers that nobody changes.
    if not type(module).__module__.startswith("torch.nn."):
        yield module.__dict__


def _objects(tables: tuple[dict[str, Any], ...], end: object) -> Iterator[object]:
    for table in tables:
        for name, value in table.items():
            yield value
            yield name
        yield end
