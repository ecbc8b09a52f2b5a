"""Caches of transformers that are written in place.

`DynamicLayer.update` makes new tensors in each call: a step copies the whole cache. Here a layer's
tensors are views of buffers with spare positions, and a step writes behind them. To everybody else
a layer looks as it did: `keys` and `values` are tensors of its positions, and tensors that others
hold stay as they are.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_ROOM = "_cpuaccel_room"
_SPARE = 32
"""Least spare positions of a new buffer."""


@dataclass
class Place:
    """Where the keys and values of a call go."""

    keys: Tensor
    values: Tensor
    """The buffers: N x heads x capacity x head width."""
    begin: int
    """The first position that the layer holds."""
    used: int
    """The position behind the last one that the layer holds."""


@dataclass
class _Newest:
    """Views of buffers that hold all positions written so far."""

    keys: Tensor
    values: Tensor
    addresses: tuple[int, int]
    begin: int
    end: int

    def are_of(self, layer: Any) -> bool:
        return (
            self.keys is layer.keys
            and self.values is layer.values
            and self.addresses == (self.keys.data_ptr(), self.values.data_ptr())
        )


class Room:
    """The buffers of one layer, or of several copies of it.

    Only the newest view may be continued in place: a copy of the layer, or a beam, may hold another
    view, whose next position differs.
    """

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self.keys, self.values = keys, values
        self.newest: list[_Newest] = []
        """The newest views. At most one: whoever takes it may write behind it."""

    def __reduce__(self) -> Any:
        return type(None), ()  # copies of a layer have no room at first


class Layer:
    """How the layers of one class are written in place."""

    def __init__(self, layer: Any, tokens: int) -> None:
        """`tokens`: the number of positions that are added."""
        self._layer = layer
        self._tokens = tokens
        self._window = layer.sliding_window if layer.is_sliding else 0

    def positions(self) -> int:
        """Return the number of positions that a call attends to."""
        return int(self._layer.keys.shape[2]) + self._tokens

    def place(self) -> Place:
        """Return where the next positions go: behind the layer's own if nobody else writes there,
        else in new buffers.
        """
        layer, tokens = self._layer, self._tokens
        room = layer.__dict__.get(_ROOM)
        if room is not None:
            try:
                newest = room.newest.pop()
            except IndexError:
                newest = None  # another copy of the layer is writing
            if newest is not None and not newest.are_of(layer):
                room.newest.append(newest)  # it is another copy's
            elif newest is not None and newest.end + tokens <= room.keys.shape[2]:
                return Place(room.keys, room.values, newest.begin, newest.end)
        count = layer.keys.shape[2]
        capacity = count + tokens + max(_SPARE, (count + tokens) // 10)
        room = Room(_grown(layer.keys, capacity), _grown(layer.values, capacity))
        layer.__dict__[_ROOM] = room
        return Place(room.keys, room.values, 0, count)

    def keep(self, place: Place) -> None:
        """Let the layer hold what was written."""
        layer = self._layer
        end = place.used + self._tokens
        begin = place.begin
        if self._window:
            layer.cumulative_length += self._tokens
            begin = max(begin, end - self._window + 1)
        layer.keys = place.keys.narrow(2, begin, end - begin)
        layer.values = place.values.narrow(2, begin, end - begin)
        addresses = (layer.keys.data_ptr(), layer.values.data_ptr())
        newest = _Newest(layer.keys, layer.values, addresses, begin, end)
        layer.__dict__[_ROOM].newest.append(newest)


def layer_in_place(cache: Any, number: int, key: Tensor, value: Tensor) -> Layer | None:
    """Return a layer that `key` and `value` can be appended to in place; None if they cannot.

    They have dtype and shape N x heads x tokens x head width.
    """
    found: Any = sys.modules["transformers"].cache_utils
    if type(cache) is not found.DynamicCache or getattr(cache, "offloading", False):
        return None
    if number >= len(cache.layers):
        return None
    layer = cache.layers[number]
    if type(layer) is found.DynamicSlidingWindowLayer:
        if getattr(layer, "record_past", False) or layer.sliding_window < 2:
            return None
    elif type(layer) is not found.DynamicLayer:
        return None
    keys, values = layer.keys, layer.values
    if (
        type(keys) is not Tensor
        or type(values) is not Tensor
        or keys.dim() != 4
        or keys.shape != values.shape
        or key.shape != value.shape
        or key.shape[:2] != keys.shape[:2]
        or key.shape[3] != keys.shape[3]
        or not key.dtype == value.dtype == keys.dtype == values.dtype
        or not keys.shape[2]
    ):
        return None
    if torch.is_grad_enabled() and any(each.requires_grad for each in (keys, values, key, value)):
        return None
    return Layer(layer, key.shape[2])


def without_room(layer: Any) -> None:
    """Let a copy of a layer leave its buffers to the layer itself."""
    layer.__dict__.pop(_ROOM, None)


def _grown(tensor: Tensor, capacity: int) -> Tensor:
    heads = tensor.shape[:2]
    grown = tensor.new_empty((*heads, capacity, tensor.shape[3]))
    grown.narrow(2, 0, tensor.shape[2]).copy_(tensor)
    return grown
