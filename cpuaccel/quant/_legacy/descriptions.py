"""What a pickle says, without its classes: names, calls and objects that run nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Global:
    """The name of a class or function in a pickle. It is never imported."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(eq=False)
class Object:
    """A call of a global, and what was put into its result."""

    made_by: Global
    args: tuple[Any, ...] = ()
    state: Any = None
    """The argument of __setstate__."""
    items: list[Any] = field(default_factory=list)
    """What was appended or added, as to a list or a set."""
    entries: dict[Any, Any] = field(default_factory=dict)
    """What was set by key, as in an OrderedDict."""


@dataclass(frozen=True)
class StorageId:
    """The persistent id of a storage: its parts are those of torch.save."""

    parts: tuple[Any, ...]
