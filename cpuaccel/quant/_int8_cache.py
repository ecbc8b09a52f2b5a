"""The layers of `cpuaccel.quant.int8_cache`. Importing this file imports transformers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cpuaccel._transformers_names import DynamicCache, DynamicLayer

_NAMES = ("keys", "values", "key_scales", "value_scales")
_MOST = 127.0


class Int8Layer(DynamicLayer):  # type: ignore[misc]
    """A layer whose `keys` and `values` are int8.

    `key_scales` and `value_scales` (N x heads x positions, float32) are what they are multiplied
    by. `update` returns floats.
    """

    is_cpuaccel_int8 = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor | None = None) -> None:
        """Take the dtype and the sizes of the first keys and values."""
        values = key_states if value_states is None else value_states
        self.dtype, self.device = key_states.dtype, key_states.device
        self.keys, self.key_scales = _to_int8(key_states[:, :, :0])
        self.values, self.value_scales = _to_int8(values[:, :, :0])
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Append keys and values; return all of them as floats.

        What a prompt attends to is not rounded.
        """
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        held = self.keys.shape[2]
        added = (*_to_int8(key_states), *_to_int8(value_states))
        for name, each in zip(("keys", "key_scales", "values", "value_scales"), added, strict=True):
            setattr(self, name, torch.cat([getattr(self, name), each], dim=2))
        if not held:
            return key_states, value_states
        return (
            _to_floats(self.keys, self.key_scales, self.dtype),
            _to_floats(self.values, self.value_scales, self.dtype),
        )

    def crop(self, tokens_to_remove: int) -> None:
        """Remove positions from the end, as `DynamicLayer.crop` does."""
        if self.is_initialized:
            super().crop(tokens_to_remove)
            count = self.keys.shape[2]
            self.key_scales = self.key_scales[:, :, :count]
            self.value_scales = self.value_scales[:, :, :count]

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Take the rows of the batch that go on."""
        self._change(lambda each: each.index_select(0, beam_idx))

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat each row of the batch."""
        self._change(lambda each: each.repeat_interleave(repeats, dim=0))

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep some rows of the batch."""
        self._change(lambda each: each[indices, ...])

    def _change(self, change: Callable[[Tensor], Tensor]) -> None:
        if self.get_seq_length() > 0:
            for name in _NAMES:
                setattr(self, name, change(getattr(self, name)))


def made(config: Any) -> Any:
    """Return a cache of such layers; layers of other kinds stay as they are."""
    cache = DynamicCache(config=config) if config is not None else DynamicCache()
    cache.layers = [Int8Layer() if type(each) is DynamicLayer else each for each in cache.layers]
    if cache.layer_class_to_replicate is DynamicLayer:
        cache.layer_class_to_replicate = Int8Layer
    return cache


def _to_int8(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """Return numbers and scales, the same bits as cpuaccel::attend_and_keep_ makes."""
    floats = tensor.float()
    largest = floats.abs().amax(-1) if tensor.numel() else floats.new_zeros(tensor.shape[:3])
    # torch computes a number / a tensor as the number times the reciprocal.
    inverse = torch.where(largest > 0, torch.full_like(largest, _MOST) / largest, 0.0)
    numbers = (floats * inverse[..., None]).clamp(-_MOST, _MOST).round().nan_to_num(0.0)
    # A row with a number that is not finite has a NaN as its scale.
    return numbers.to(torch.int8), largest / _MOST * torch.where(largest.isfinite(), 1.0, torch.nan)


def _to_floats(numbers: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    return (numbers.float() * scales[..., None]).to(dtype)
