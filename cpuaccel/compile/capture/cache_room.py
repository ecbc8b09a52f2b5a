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


FLOATS = ("keys", "values")
INT8 = ("keys", "values", "key_scales", "value_scales")
"""Names of a layer's tensors: N x heads x positions, and the head width for keys and values."""


@dataclass
class Place:
    """Where the keys and values of a call go."""

    buffers: tuple[Tensor, ...]
    """With `capacity` positions, in the order of the layer's names."""
    begin: int
    """The first position that the layer holds."""
    used: int
    """The position behind the last one that the layer holds."""


@dataclass
class _Newest:
    """Views of buffers that hold all positions written so far."""

    views: tuple[Tensor, ...]
    addresses: tuple[int, ...]
    begin: int
    end: int

    def are(self, tensors: tuple[Tensor, ...]) -> bool:
        return all(
            view is each and address == each.data_ptr()
            for view, each, address in zip(self.views, tensors, self.addresses, strict=True)
        )


class Room:
    """The buffers of one layer, or of several copies of it.

    Only the newest views may be continued in place: a copy of the layer, or a beam, may hold other
    views, whose next position differs.
    """

    def __init__(self, buffers: tuple[Tensor, ...]) -> None:
        self.buffers = buffers
        self.newest: list[_Newest] = []
        """The newest views. At most one: whoever takes it may write behind it."""

    def __reduce__(self) -> Any:
        return type(None), ()  # copies of a layer have no room at first


class Layer:
    """How a layer is written in place."""

    def __init__(self, layer: Any, names: tuple[str, ...], tokens: int) -> None:
        """`names`: of its tensors. `tokens`: the number of positions that are added."""
        self._layer, self._names, self._tokens = layer, names, tokens
        self._window = layer.sliding_window if layer.is_sliding else 0

    def positions(self) -> int:
        """Return the number of positions that a call attends to."""
        return int(self._layer.keys.shape[2]) + self._tokens

    def place(self) -> Place:
        """Return where the next positions go: behind the layer's own if nobody else writes there,
        else in new buffers.
        """
        layer, tokens = self._layer, self._tokens
        tensors = tuple(getattr(layer, name) for name in self._names)
        room = layer.__dict__.get(_ROOM)
        if room is not None:
            try:
                newest = room.newest.pop()
            except IndexError:
                newest = None  # another copy of the layer is writing
            if newest is not None and not newest.are(tensors):
                room.newest.append(newest)  # it is another copy's
            elif newest is not None and newest.end + tokens <= room.buffers[0].shape[2]:
                return Place(room.buffers, newest.begin, newest.end)
        count = layer.keys.shape[2]
        capacity = count + tokens + max(_SPARE, (count + tokens) // 10)
        room = Room(tuple(_grown(each, capacity) for each in tensors))
        layer.__dict__[_ROOM] = room
        return Place(room.buffers, 0, count)

    def keep(self, place: Place) -> None:
        """Let the layer hold what was written."""
        layer = self._layer
        begin, end = place.begin, place.used + self._tokens
        if self._window:
            layer.cumulative_length += self._tokens
            begin = max(begin, end - self._window + 1)
        views = tuple(each.narrow(2, begin, end - begin) for each in place.buffers)
        for name, view in zip(self._names, views, strict=True):
            setattr(layer, name, view)
        addresses = tuple(view.data_ptr() for view in views)
        layer.__dict__[_ROOM].newest.append(_Newest(views, addresses, begin, end))


def layer_in_place(cache: Any, number: int, key: Tensor, value: Tensor) -> Layer | None:
    """Return a layer that `key` and `value` can be appended to in place; None if they cannot.

    They have shape N x heads x tokens x head width.
    """
    found: Any = sys.modules["transformers"].cache_utils
    if type(cache) is not found.DynamicCache or getattr(cache, "offloading", False):
        return None
    if number >= len(cache.layers):
        return None
    layer = cache.layers[number]
    names: tuple[str, ...] = FLOATS
    if type(layer) is found.DynamicSlidingWindowLayer:
        if getattr(layer, "record_past", False) or layer.sliding_window < 2:
            return None
    elif getattr(type(layer), "is_cpuaccel_int8", False):
        names = INT8
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
        or key.dtype != value.dtype
        or not keys.shape[2]
    ):
        return None
    if names is FLOATS and not key.dtype == keys.dtype == values.dtype:
        return None
    if torch.is_grad_enabled() and any(each.requires_grad for each in (keys, values, key, value)):
        return None
    return Layer(layer, names, key.shape[2])


def without_room(layer: Any) -> None:
    """Let a copy of a layer leave its buffers to the layer itself."""
    layer.__dict__.pop(_ROOM, None)


def _grown(tensor: Tensor, capacity: int) -> Tensor:
    sizes = list(tensor.shape)
    sizes[2] = capacity
    grown = tensor.new_empty(sizes)
    grown.narrow(2, 0, tensor.shape[2]).copy_(tensor)
    return grown
