"""Plain Python values of descriptions: numbers, texts, containers, tensors, packed weights."""

from __future__ import annotations

from typing import Any

import torch

from cpuaccel.quant._legacy import packed
from cpuaccel.quant._legacy.descriptions import Global, Object, StorageId
from cpuaccel.quant._legacy.errors import LegacyError
from cpuaccel.quant._legacy.tensors import Tensors

_MAX_DEPTH = 64
"""Levels of containers inside of each other, more than any model has."""

DTYPES: dict[str, torch.dtype] = {
    "qint8": torch.int8,
    "quint8": torch.uint8,
    "qint32": torch.int32,
    **{
        name: getattr(torch, name)
        for name in (
            *("float", "float16", "float32", "float64", "half", "double", "bfloat16", "bool"),
            *("uint8", "int8", "int16", "int32", "int64", "int", "long"),
        )
    },
}
"""By name. A quantized dtype stands for the dtype of its integers."""

# By their numbers in TorchScript.
DTYPES_BY_NUMBER = {
    0: torch.uint8,
    1: torch.int8,
    2: torch.int16,
    3: torch.int32,
    4: torch.int64,
    5: torch.float16,
    6: torch.float32,
    7: torch.float64,
    11: torch.bool,
    12: torch.int8,  # qint8
    13: torch.uint8,  # quint8
    14: torch.int32,  # qint32
    15: torch.bfloat16,
}

_LISTS = frozenset(
    f"torch.jit._pickle.build_{name}"
    for name in ("intlist", "tensorlist", "doublelist", "boollist")
)


class Values:
    """Turns descriptions into values. What has no plain value stays an Object."""

    def __init__(self, tensors: Tensors) -> None:
        self._tensors = tensors
        self._packed: dict[int, tuple[Object, Any]] = {}

    def value(self, described: Any, depth: int = 0) -> Any:
        """Return the value of a description, and of what it contains."""
        if depth > _MAX_DEPTH:
            raise LegacyError(f"containers are nested more than {_MAX_DEPTH} deep")
        if isinstance(described, Object):
            return self._of_object(described, depth)
        if isinstance(described, Global):
            if described.module == "torch" and described.name in DTYPES:
                return DTYPES[described.name]
            return described
        if isinstance(described, list):
            return [self.value(each, depth + 1) for each in described]
        if isinstance(described, tuple):
            return tuple(self.value(each, depth + 1) for each in described)
        if isinstance(described, dict):
            return {key: self.value(each, depth + 1) for key, each in described.items()}
        if isinstance(described, StorageId):
            raise LegacyError("a storage in place of a tensor")
        return described

    def _of_object(self, described: Object, depth: int) -> Any:
        name = str(described.made_by)
        if self._tensors.is_tensor(described):
            return self._tensors.tensor(described)
        if name == "collections.OrderedDict":
            return self._ordered(described, depth)
        if name in _LISTS or name == "torch.jit._pickle.restore_type_tag":
            return self.value(described.args[0] if described.args else None, depth + 1)
        if name in ("torch.Size", "builtins.tuple"):
            return tuple(self.value(each, depth + 1) for each in described.args[0])
        if name in ("builtins.set", "__builtin__.set", "builtins.frozenset"):
            return set()  # of names of buffers: nothing reads them
        if script_class(described) is not None:
            return self._of_packed(described, depth)
        return described

    def _ordered(self, described: Object, depth: int) -> dict[Any, Any]:
        pairs = described.args[0] if described.args else []  # protocol 0 writes them here
        entries = dict(pairs) if isinstance(pairs, (list, tuple)) else {}
        entries |= described.entries
        return {key: self.value(each, depth + 1) for key, each in entries.items()}

    def _of_packed(self, described: Object, depth: int) -> Any:
        known = self._packed.get(id(described))
        if known is None:
            name = str(script_class(described))
            state = described.state
            if described.made_by.module == "torch":
                state = state[0] if isinstance(state, tuple) and state else None
            unpacked = packed.unpack(name, self.value(state, depth + 1))
            known = self._packed[id(described)] = described, unpacked
        return known[1]


def script_class(described: Any) -> str | None:
    """Return the class of a packed object, such as `quantized.LinearPackedParamsBase`."""
    if not isinstance(described, Object):
        return None
    name = described.made_by
    prefix = f"{packed.CLASSES}."
    if (name.module, name.name) == ("torch", "ScriptObject"):
        state = described.state
        if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], str):
            return state[1].removeprefix(prefix)
        raise LegacyError("damaged packed weights: they have no class")
    full = str(name)
    return full.removeprefix(prefix) if full.startswith(prefix) else None
