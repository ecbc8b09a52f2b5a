"""Reads the weights of a model in the format of CTranslate2, with numpy alone.

A file is a header (version, name and revision of the model), then each tensor: its name, number of
dimensions, sizes, number of its data type, number of bytes, bytes. At the end stand other names of
tensors. All numbers are little-endian; strings begin with their length and end with a zero.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np

_TYPES = ("float32", "int8", "int16", "int32", "float16")
"""By number of the data type. The next one, bfloat16, is not in numpy."""

_VERSION = 6


def read(path: Path) -> dict[str, np.ndarray]:
    """Return the tensors of a file by name.

    Raises:
        ValueError: the file has another version of the format, or a data type that numpy lacks.
    """
    with path.open("rb") as file:
        if (version := _number(file, "I")) != _VERSION:
            raise ValueError(f"{path.name}: expected version {_VERSION}, got {version}")
        _string(file)  # the kind of model
        _number(file, "I")  # and its revision
        found = dict(_tensor(file) for _ in range(_number(file, "I")))
        others = [(_string(file), _string(file)) for _ in range(_number(file, "I"))]
    return {**found, **{name: found[of] for name, of in others}}


def _tensor(file: BinaryIO) -> tuple[str, np.ndarray]:
    name = _string(file)
    sizes = [_number(file, "I") for _ in range(_number(file, "B"))]
    kind, size = _number(file, "B"), _number(file, "I")
    if kind >= len(_TYPES):
        raise ValueError(f"{name}: expected one of {', '.join(_TYPES)}, got type {kind}")
    return name, np.frombuffer(file.read(size), _TYPES[kind]).reshape(sizes)


def _number(file: BinaryIO, kind: str) -> int:
    found: int
    (found,) = struct.unpack(f"<{kind}", file.read(struct.calcsize(kind)))
    return found


def _string(file: BinaryIO) -> str:
    return file.read(_number(file, "H")).rstrip(b"\0").decode()
