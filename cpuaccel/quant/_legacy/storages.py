"""Types and keys of storages, from their persistent ids."""

from __future__ import annotations

import torch

from cpuaccel.quant._legacy.descriptions import Global, StorageId
from cpuaccel.quant._legacy.errors import LegacyError

_DTYPES = {
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
    "ComplexFloatStorage": torch.complex64,
    "ComplexDoubleStorage": torch.complex128,
    "QInt8Storage": torch.int8,
    "QUInt8Storage": torch.uint8,
    "QInt32Storage": torch.int32,
    "UntypedStorage": torch.uint8,
}
"""The dtype of a storage's numbers, by the name of its class. Quantized ones hold integers."""


def storage_key(storage: StorageId) -> str:
    """Return the key of a storage."""
    _check(storage)
    return str(storage.parts[2])


def dtype_of(storage: StorageId) -> torch.dtype:
    """Return the dtype of a storage's numbers."""
    _check(storage)
    kind = storage.parts[1]
    name = kind.name if isinstance(kind, Global) else str(kind)
    if name not in _DTYPES:
        raise LegacyError(f"a storage of class {kind}: expected one of {', '.join(_DTYPES)}")
    return _DTYPES[name]


def count_of(storage: StorageId) -> int:
    """Return the number of elements that the pickle declares."""
    _check(storage)
    return int(storage.parts[4])


def view_of(storage: StorageId) -> int:
    """Return the element at which a view of another storage begins (files before torch 1.6)."""
    view = storage.parts[5] if len(storage.parts) > 5 else None
    if view is None:
        return 0
    if not isinstance(view, tuple) or len(view) != 3 or not isinstance(view[1], int) or view[1] < 0:
        raise LegacyError(f"damaged storage: a view {view!r}")
    return view[1]


def _check(storage: StorageId) -> None:
    parts = storage.parts
    is_complete = len(parts) in (5, 6) and parts[0] == "storage" and isinstance(parts[4], int)
    if not is_complete or not isinstance(parts[2], (str, int)):
        raise LegacyError("damaged pickle: the id of a storage has other parts than torch writes")
