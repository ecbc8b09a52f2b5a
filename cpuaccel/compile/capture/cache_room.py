"""Caches of transformers that are written in place.

`DynamicLayer.update` makes new tensors in each call: a step copies the whole cache. Here a layer's
tensors are views of buffers with spare positions, and a step writes behind them. To everybody else
a layer looks as it did: `keys` and `values` are tensors of its positions, and tensors that others
hold stay as they are.
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cpuaccel import _native, _transformers_names

_ROOM = "_cpuaccel_room"
_SPARE = 32
"""Least spare positions of a new buffer."""

_FEW = 8
"""Most tokens of a step that are appended to an int8 cache in place."""

Shape = tuple[int, ...]
"""Of keys and values: N x heads x tokens x head width."""

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

    def __init__(self, layer: Any, names: tuple[str, ...], shape: Shape, dtype: Any) -> None:
        """Copy the tensors of `layer` to buffers that have space for keys of this shape too."""
        held = positions_of(layer)
        count = held + shape[2]
        self.capacity = count + max(_SPARE, count // 10)
        self.names = names
        if held:
            self.buffers = tuple(_grown(getattr(layer, name), self.capacity) for name in names)
        else:
            sizes = (*shape[:2], self.capacity, shape[3])
            self.buffers = tuple(torch.empty(sizes, dtype=dtype) for _ in names)
        self.window: int = layer.sliding_window if layer.is_sliding else 0
        self.newest: list[Any] = []
        """The newest views, `_C.LayerViews`. At most one: who takes it may write behind it."""

    def __reduce__(self) -> Any:
        return type(None), ()  # copies of a layer have no room at first

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

        Return the views; None if the buffers stay behind, because the layer holds few of their
        positions.
        """
        views = tuple(each.narrow(2, begin, end - begin) for each in self.buffers)
        if not layer.is_initialized:
            kind: Any = type(layer)
            given = views[:2] if _takes_values(kind) else views[:1]
            layer.lazy_initialization(*given)
        if self.window:
            layer.cumulative_length += tokens
        if self.window and begin > self.capacity // 2:
            for name, view in zip(self.names, views, strict=True):
                setattr(layer, name, view.clone())
            without_room(layer)
            return None
        for name, view in zip(self.names, views, strict=True):
            setattr(layer, name, view)
        made = _native.load().LayerViews(self.names, views, begin, end)
        self.newest.append(made)
        return made


def place_in(layer: Any, key: Tensor, value: Tensor) -> Place | None:
    """Return where `key` and `value` can be appended to a layer in place; None if they cannot.

    They have shape N x heads x tokens x head width.
    """
    if key.shape != value.shape or key.dtype != value.dtype:
        return None
    if torch.is_grad_enabled() and (key.requires_grad or value.requires_grad):
        return None
    return place_behind(layer, key.shape, key.dtype)


def place_behind(layer: Any, shape: Shape, dtype: torch.dtype) -> Place | None:
    """Return where keys and values of this shape can be appended to a layer; None if they cannot.

    The place is taken: nobody else gets it until it is given back, or kept.
    """
    names = _names(layer, shape, dtype)
    if names is None:
        return None
    room = layer.__dict__.get(_ROOM)
    if room is not None and room.names is names:
        found: Place | None = room.place(layer, shape[2])
        if found is not None:
            return found
    made = layer.__dict__[_ROOM] = Room(layer, names, shape, dtype)
    return Place(made, 0, positions_of(layer))


def layers_in_place(cache: Any) -> list[Any]:
    """Return the layers of a cache that calls `update` of its layers, and nothing else."""
    if type(cache) is not _transformers_names.DynamicCache or getattr(cache, "offloading", False):
        return []
    layers: list[Any] = cache.layers
    return layers


def _names(layer: Any, shape: Shape, dtype: torch.dtype) -> tuple[str, ...] | None:
    """Return the names of a layer's tensors; None if it cannot be written in place."""
    names = FLOATS
    if type(layer) is _transformers_names.DynamicSlidingWindowLayer:
        if getattr(layer, "record_past", False) or layer.sliding_window < 2:
            return None
    elif getattr(type(layer), "is_cpuaccel_int8", False):
        # The kernel reads int8 keys once for each row of queries.
        names = INT8
        if shape[2] > _FEW:
            return None
    elif type(layer) is not _transformers_names.DynamicLayer:
        return None
    if not layer.is_initialized:
        return names if names is FLOATS else None
    keys, values = layer.keys, layer.values
    if (
        type(keys) is not Tensor
        or type(values) is not Tensor
        or keys.dim() != 4
        or keys.shape != values.shape
        or tuple(shape[:2]) != keys.shape[:2]
        or shape[3] != keys.shape[3]
        or not keys.shape[2]
    ):
        return None
    if names is FLOATS and not dtype == keys.dtype == values.dtype:
        return None
    if torch.is_grad_enabled() and (keys.requires_grad or values.requires_grad):
        return None
    return names


def positions_of(layer: Any) -> int:
    """Return how many positions a layer holds."""
    return int(layer.keys.shape[2]) if layer.is_initialized else 0


@functools.cache
def _takes_values(kind: Any) -> bool:
    """Say whether a layer is initialized with values too, as since transformers 5."""
    return len(inspect.signature(kind.lazy_initialization).parameters) > 2


def without_room(layer: Any) -> None:
    """Let a copy of a layer leave its buffers to the layer itself."""
    layer.__dict__.pop(_ROOM, None)


def _grown(tensor: Tensor, capacity: int) -> Tensor:
    sizes = list(tensor.shape)
    sizes[2] = capacity
    grown = tensor.new_empty(sizes)
    grown.narrow(2, 0, tensor.shape[2]).copy_(tensor)
    return grown
