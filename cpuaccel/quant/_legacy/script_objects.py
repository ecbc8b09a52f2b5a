"""Objects of a TorchScript archive: their classes and attributes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cpuaccel.quant._legacy.descriptions import Object
from cpuaccel.quant._legacy.errors import LegacyError
from cpuaccel.quant._legacy.script_source import ScriptClass, Sources, is_script
from cpuaccel.quant._legacy.values import Values, script_class

_MAX_DEPTH = 64


@dataclass(eq=False)
class Instance:
    """An object of a class of the archive."""

    cls: ScriptClass
    path: str
    attributes: dict[str, Any] = field(default_factory=dict)
    state: Any = None
    """What __setstate__ is to be called with, if it has not been."""


class Objects:
    """Turns the descriptions of an archive into values and instances."""

    def __init__(self, sources: Sources, values: Values) -> None:
        self._sources = sources
        self._values = values
        self._made: dict[int, tuple[Object, Instance]] = {}
        self.with_state: list[Instance] = []
        """Instances whose __setstate__ is still to be called, those inside first."""

    def value(self, described: Any, path: str = "", depth: int = 0) -> Any:
        """Return the value of an attribute, or an Instance."""
        if depth > _MAX_DEPTH:
            raise LegacyError(f"objects are nested more than {_MAX_DEPTH} deep")
        is_object = isinstance(described, Object) and is_script(described.made_by)
        if is_object and script_class(described) is None:
            return self._instance(described, path, depth)
        if isinstance(described, (list, tuple)):
            made = [self.value(each, f"{path}.{i}", depth + 1) for i, each in enumerate(described)]
            return made if isinstance(described, list) else tuple(made)
        return self._values.value(described)

    def _instance(self, described: Object, path: str, depth: int) -> Instance:
        known = self._made.get(id(described))
        if known is not None:
            return known[1]
        name = str(described.made_by)
        cls = self._sources.class_named(name)
        if cls is None:
            raise LegacyError(f"its code has no class {name}: the file is damaged")
        made = Instance(cls, path)
        self._made[id(described)] = described, made
        state = described.state
        if "__setstate__" in cls.methods:
            made.state = self.value(state, f"{path}.state" if path else "state", depth + 1)
            self.with_state.append(made)
        elif isinstance(state, dict):
            for key, each in state.items():
                below = f"{path}.{key}" if path else str(key)
                made.attributes[str(key)] = self.value(each, below, depth + 1)
        else:
            raise LegacyError(f"object {path or 'of the file'} ({name}) has no attributes")
        return made
