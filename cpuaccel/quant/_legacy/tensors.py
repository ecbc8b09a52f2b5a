"""Tensors of a file, as plain tensors. A quantized one is integers, scales and zero points."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cpuaccel.quant._legacy.container import Container, read_nested
from cpuaccel.quant._legacy.descriptions import Global, Object, StorageId
from cpuaccel.quant._legacy.errors import LegacyError
from cpuaccel.quant._legacy.storages import count_of, dtype_of, storage_key, view_of
from cpuaccel.quant._lowering.integers import IntegerTensor

_UTILS = "torch._utils"
_MAX_DIMENSIONS = 64


class Tensors:
    """Makes the tensors of a file. Tensors that share a storage share memory."""

    def __init__(self, container: Container, max_bytes: int) -> None:
        self._container = container
        self._max_bytes = max_bytes
        self._flat: dict[tuple[str, torch.dtype], Tensor] = {}
        self._made: dict[int, tuple[Object, Tensor | IntegerTensor]] = {}

    def is_tensor(self, described: Any) -> bool:
        """Return whether a description is a tensor or parameter."""
        return isinstance(described, Object) and str(described.made_by) in _REBUILDS

    def tensor(self, described: Object) -> Tensor | IntegerTensor:
        """Return the tensor that a description makes; the same one for the same description."""
        known = self._made.get(id(described))
        if known is None:
            try:
                made = _REBUILDS[str(described.made_by)](self, *described.args)
            except (TypeError, ValueError, RuntimeError, OverflowError) as error:
                if isinstance(error, LegacyError):
                    raise
                raise LegacyError(f"damaged tensor ({described.made_by}): {error}") from error
            known = self._made[id(described)] = described, made
        return known[1]

    def _plain(self, storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> Tensor:
        return self._view(storage, None, offset, size, stride)

    def _plain_v3(
        self, storage: Any, offset: Any, size: Any, stride: Any, _grad: Any, _h: Any, dtype: Any
    ) -> Tensor:
        named = getattr(torch, dtype.name, None) if isinstance(dtype, Global) else None
        if not isinstance(named, torch.dtype) or "qu" in dtype.name or "qint" in dtype.name:
            raise LegacyError(f"a tensor of dtype {dtype}")
        return self._view(storage, named, offset, size, stride)

    def _parameter(self, data: Any, *_: Any) -> Tensor | IntegerTensor:
        if not self.is_tensor(data):
            raise LegacyError("damaged pickle: a parameter without a tensor")
        return self.tensor(data)

    def _quantized(
        self, storage: Any, offset: Any, size: Any, stride: Any, quantizer: Any, *_: Any
    ) -> IntegerTensor:
        q = self._view(storage, None, offset, size, stride)
        scheme = quantizer[0].name if isinstance(quantizer[0], Global) else str(quantizer[0])
        if scheme == "per_tensor_affine":
            return IntegerTensor(q, float(quantizer[1]), int(quantizer[2]))
        if not scheme.startswith("per_channel_affine"):
            raise LegacyError(
                f"a tensor quantized {scheme}: expected per_tensor_affine or per_channel_affine"
            )
        axis = int(quantizer[3])
        scales, points = (self._channels(each, q, axis) for each in quantizer[1:3])
        if not points.is_floating_point():  # those of embeddings are, whatever the scheme says
            points = points.to(torch.int64)
        return IntegerTensor(q, scales.float(), points, axis)

    def _channels(self, described: Any, q: Tensor, axis: int) -> Tensor:
        """Return scales or zero points: a tensor, or a list in files of torch before 1.6."""
        if self.is_tensor(described):
            values = self.tensor(described)
        else:
            values = torch.tensor(list(described))
        if not isinstance(values, Tensor) or not 0 <= axis < q.dim() or values.dim() != 1:
            raise LegacyError("damaged tensor: scales that are not one number for each channel")
        if len(values) != q.shape[axis]:
            raise LegacyError(f"damaged tensor: {len(values)} scales for {q.shape[axis]} channels")
        return values

    def _view(
        self, storage: Any, dtype: torch.dtype | None, offset: Any, size: Any, stride: Any
    ) -> Tensor:
        """Return a view of a storage. Its elements must lie inside."""
        if isinstance(storage, Object) and str(storage.made_by) == "torch.storage._load_from_bytes":
            return self._nested(storage, offset, size, stride)
        if not isinstance(storage, StorageId):
            raise LegacyError("damaged tensor: it has no storage")
        flat = self._numbers(storage, dtype)
        shape, strides = _numbers(size), _numbers(stride)
        start = _number(offset) + view_of(storage)
        if len(shape) != len(strides) or len(shape) > _MAX_DIMENSIONS:
            raise LegacyError(f"damaged tensor: size {shape} with stride {strides}")
        count, last = 1, start
        for length, step in zip(shape, strides, strict=True):
            count *= length
            last += max(length - 1, 0) * step
        if count and last >= flat.numel():
            raise LegacyError(
                f"damaged tensor: size {shape}, stride {strides} and offset {start} lie outside of"
                f" its storage of {flat.numel()} numbers"
            )
        if count * flat.element_size() > self._max_bytes:
            raise LegacyError(
                f"a tensor of size {shape} has more bytes than max_bytes={self._max_bytes}:"
                " pass a larger one"
            )
        return flat.as_strided(shape, strides, start if count else 0)

    def _numbers(self, storage: StorageId, dtype: torch.dtype | None) -> Tensor:
        key = storage_key(storage), dtype or dtype_of(storage)
        if key not in self._flat:
            contents = self._container.read_storage(key[0])
            declared = count_of(storage) * dtype_of(storage).itemsize
            if len(contents) < declared:
                raise LegacyError(
                    f"storage {key[0]} has {len(contents)} bytes, but {declared} are declared"
                )
            if len(contents) % key[1].itemsize:
                raise LegacyError(f"storage {key[0]} has {len(contents)} bytes for {key[1]}")
            made = torch.empty(0, dtype=key[1])
            if contents:
                made = torch.frombuffer(bytearray(contents), dtype=key[1])
            self._flat[key] = made
        return self._flat[key]

    def _nested(self, storage: Object, offset: Any, size: Any, stride: Any) -> Tensor:
        """Return a view of a storage that pickle.dump wrote as a file of torch.save."""
        contents = storage.args[0]
        if not isinstance(contents, bytes):
            raise LegacyError("damaged tensor: its storage is not bytes")
        inner = read_nested(contents)
        tensors = Tensors(inner, self._max_bytes)
        return tensors._view(inner.data, None, offset, size, stride)


def _number(value: Any) -> int:
    if type(value) is not int or value < 0 or value >= 1 << 62:
        raise LegacyError(f"damaged tensor: {value!r} in place of a size, stride or offset")
    return value


def _numbers(values: Any) -> list[int]:
    if isinstance(values, Object) and values.made_by.name == "Size":
        values = values.args[0]
    if not isinstance(values, (tuple, list)):
        raise LegacyError("damaged tensor: its size or stride is not a tuple")
    return [_number(value) for value in values]


_REBUILDS: dict[str, Any] = {
    f"{_UTILS}._rebuild_tensor": Tensors._plain,
    f"{_UTILS}._rebuild_tensor_v2": Tensors._plain,
    f"{_UTILS}._rebuild_tensor_v3": Tensors._plain_v3,
    f"{_UTILS}._rebuild_qtensor": Tensors._quantized,
    f"{_UTILS}._rebuild_parameter": Tensors._parameter,
    f"{_UTILS}._rebuild_parameter_with_state": Tensors._parameter,
}
