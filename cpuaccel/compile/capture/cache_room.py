"""Caches of transformers that are written in place.

`DynamicLayer.update` makes new tensors in each call: a step copies the whole cache. Here a layer's
tensors are views of buffers with spare positions, and a step writes behind them. To everybody else
a layer looks as it did: `keys` and `values` are tensors of its positions, and tensors that others
hold stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cpuaccel import _native, _transformers_names

_ROOM = "_cpuaccel_room"
_SPARE = 32
"""Least spare positions of a new buffer."""


FLOATS: tuple[str, ...] = ("keys", "values")
INT8: tuple[str, ...] = ("keys", "values", "key_scales", "value_scales")
"""Names of a layer's tensors: N x heads x positions, and the head width for keys and values."""


@dataclass
class Place:
    """Where the keys and values of a call go."""

    room: Room
    begin: int
    """The first position that the layer holds."""
    used: int
    """The position behind the last one that the layer holds."""
    taken: Any = None
    """The views whose place it is, `_C.LayerViews`."""

    def give_back(self) -> None:
        """Let others take the place: nothing was written to it that anybody holds."""
        if self.taken is not None:
            self.room.newest.append(self.taken)


class Room:
    """The buffers of one layer, or of several copies of it.

    Only the newest views may be continued in place: a copy of the layer, or a beam, may hold other
    views, whose next position differs.
    """

    def __init__(self, layer: Any, names: tuple[str, ...], added: Tensor) -> None:
        """Copy the tensors of `layer` to buffers that have space for the keys `added` too."""
        held: int = layer.keys.shape[2]
        count = held + added.shape[2]
        self.capacity = count + max(_SPARE, count // 10)
        self.names = names
        self.buffers = tuple(_grown(getattr(layer, name), self.capacity) for name in names)
        self.window: int = layer.sliding_window if layer.is_sliding else 0
        self.newest: list[Any] = []
        """The newest views, `_C.LayerViews`. At most one: who takes it may write behind it."""
        self.shape, self.dtype = added.shape, added.dtype
        """Of the keys and values that were added last."""

    def __reduce__(self) -> Any:
        return type(None), ()  # copies of a layer have no room at first

    def takes(self, layer: Any, key: Tensor, value: Tensor) -> bool:
        """Say whether keys and values are like those that were added last."""
        return (
            key.shape == self.shape == value.shape
            and key.dtype is self.dtype is value.dtype
            and self.continues(layer)
        )

    def continues(self, layer: Any) -> bool:
        """Say whether more keys and values, like those that were added last, may be appended."""
        return not torch.is_grad_enabled() and not (
            self.window and getattr(layer, "record_past", False)
        )

    def place(self, layer: Any, tokens: int) -> Place | None:
        """Take the place behind the layer's positions; None if somebody else may write there."""
        try:
            newest = self.newest.pop()
        except IndexError:
            return None  # another copy of the layer is writing
        if not newest.are_held_by(layer):
            self.newest.append(newest)  # it is another copy's
            return None
        if newest.end + tokens > self.capacity:
            return None
        return Place(self, newest.begin, newest.end, newest)

    def keep(self, layer: Any, place: Place, tokens: int) -> None:
        """Let the layer hold what was written to a place."""
        begin, end = place.begin, place.used + tokens
        if self.window:
            begin = max(begin, end - self.window + 1)
        self.hold(layer, begin, end, tokens)

    def hold(self, layer: Any, begin: int, end: int, tokens: int) -> Any:
        """Let the layer hold new views of positions [begin, end), of which `tokens` are new.

        Return the views.
        """
        if self.window:
            layer.cumulative_length += tokens
        views = tuple(each.narrow(2, begin, end - begin) for each in self.buffers)
        for name, view in zip(self.names, views, strict=True):
            setattr(layer, name, view)
        made = _native.load().LayerViews(self.names, views, begin, end)
        self.newest.append(made)
        return made


def room_of(layer: Any) -> Room | None:
    """Return the buffers of a layer, if it has any."""
    room: Room | None = layer.__dict__.get(_ROOM)
    return room


def place_in(layer: Any, key: Tensor, value: Tensor) -> Place | None:
    """Return where `key` and `value` can be appended to a layer in place; None if they cannot.

    They have shape N x heads x tokens x head width.
    """
    room = room_of(layer)
    if room is not None and room.takes(layer, key, value):
        found = room.place(layer, key.shape[2])
        if found is not None:
            return found
    names = _names(layer, key, value)
    if names is None:
        return None
    if room is not None and room.names is names:
        found = room.place(layer, key.shape[2])
        if found is not None:
            room.shape, room.dtype = key.shape, key.dtype
            return found
    made = layer.__dict__[_ROOM] = Room(layer, names, key)
    return Place(made, 0, layer.keys.shape[2])


def layers_in_place(cache: Any) -> list[Any]:
    """Return the layers of a cache that calls `update` of its layers, and nothing else."""
    if type(cache) is not _transformers_names.DynamicCache or getattr(cache, "offloading", False):
        return []
    layers: list[Any] = cache.layers
    return layers


def _names(layer: Any, key: Tensor, value: Tensor) -> tuple[str, ...] | None:
    """Return the names of a layer's tensors; None if it cannot be written in place."""
    names = FLOATS
    if type(layer) is _transformers_names.DynamicSlidingWindowLayer:
        if getattr(layer, "record_past", False) or layer.sliding_window < 2:
            return None
    elif getattr(type(layer), "is_cpuaccel_int8", False):
        names = INT8
    elif type(layer) is not _transformers_names.DynamicLayer:
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
    return names


def without_room(layer: Any) -> None:
    """Let a copy of a layer leave its buffers to the layer itself."""
    layer.__dict__.pop(_ROOM, None)


def _grown(tensor: Tensor, capacity: int) -> Tensor:
    sizes = list(tensor.shape)
    sizes[2] = capacity
    grown = tensor.new_empty(sizes)
    grown.narrow(2, 0, tensor.shape[2]).copy_(tensor)
    return grown
