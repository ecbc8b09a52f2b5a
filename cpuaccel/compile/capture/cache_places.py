"""The places in a cache that all attentions of a decoder's call write to.

A plan runs all layers of a step in one call. Its attentions append to the cache themselves, so they
have to know the places before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from cpuaccel import _native
from cpuaccel.compile.capture.cache_room import FLOATS, Place, Room, room_of


class _Held(NamedTuple):
    """What an attention reads."""

    layer: Any
    """The layer of a cache."""
    views: Any
    """What the layer holds, `_C.LayerViews`."""
    buffers: tuple[Tensor, ...]
    """Keys and values, and the scales of both if they are int8."""
    place: Place | None
    """Where the call appends; None for the states of an encoder."""


class Places:
    """The places of the attentions of one call, by their numbers."""

    def __init__(self, outline: Any, held: Sequence[_Held], tokens: int) -> None:
        """`outline`: of the attentions (`cached_attention.Outline`), with what they read."""
        self._outline, self._tokens = outline, tokens
        # In C++: csrc/bind/layer_places.cpp
        self._known = _native.load().LayerPlaces(
            tokens,
            [
                (
                    *(site.layer, each.layer, each.place and each.place.room),
                    *(each.views, each.buffers, _scaling(site, each), mask),
                )
                for site, each, mask in zip(outline.sites, held, outline.mask_of, strict=True)
            ],
        )

    @staticmethod
    def taken(
        cache: Any,
        outline: Any,
        layers: list[Any],
        encoded: list[Any],
        masks: Sequence[Any],
    ) -> Places | None:
        """Take the places behind what the layers of `cache` hold, as in the call before.

        `encoded`: the layers of an encoder's keys and values; `masks`: those of `outline`, of
        floats or None. None if an attention has no such place.
        """
        if not layers:
            return None
        found = _last.pop(cache, None)  # two threads cannot both have it
        if found is None or not found._take_again(outline, layers, encoded, masks):
            found = _newly_taken(outline, layers, encoded, masks)
        if found is not None:
            found._known.enter(masks)
        return found

    def _take_again(
        self, outline: Any, layers: list[Any], encoded: list[Any], masks: Sequence[Any]
    ) -> bool:
        """Take the places behind what was written last; say whether that is what layers hold."""
        return (
            self._outline is outline
            and not torch.is_grad_enabled()
            and _fit(masks, outline, self._tokens)
            and bool(self._known.take(layers, encoded))
        )

    def give_back(self, number: int) -> None:
        """Give the place of an attention back: somebody else appends to its layer."""
        self._known.give_back(number)

    def leave(self, cache: Any, *, failed: bool) -> None:
        """Let the layers hold what steps have written; nothing if the call has `failed`."""
        if self._known.leave(failed):
            _last[cache] = self


_last: WeakKeyDictionary[Any, Places] = WeakKeyDictionary()
"""The places of the last call with each cache. They are used again if they continue."""


def _fit(masks: Sequence[Any], outline: Any, tokens: int) -> bool:
    """Say whether steps of plans take these masks: transformers makes one for several tokens."""
    return all(
        isinstance(mask, Tensor) or (mask is None and (is_cross or tokens == 1))
        for mask, (_, is_cross) in zip(masks, outline.masks, strict=True)
    )


def _newly_taken(
    outline: Any, layers: list[Any], encoded: list[Any], masks: Sequence[Any]
) -> Places | None:
    """Take the places of all attentions; None if one has none."""
    own = next((site.layer for site in outline.sites if not site.is_cross), len(layers))
    first = room_of(layers[own]) if own < len(layers) else None
    if first is None or not _fit(masks, outline, first.shape[2]):
        return None
    if not hasattr(_native.load(), "LayerPlaces"):
        return None  # a build without plans
    held: list[_Held] = []
    for site in outline.sites:
        if site.is_cross:
            found = _of_encoder(encoded, site.layer)
        else:
            found = _behind(layers, site.layer, first)
        if found is None:
            break
        held.append(found)
    if len(held) == len(outline.sites):
        return Places(outline, held, first.shape[2])
    for each in held:
        if each.place is not None:
            each.place.give_back()
    return None


def _behind(layers: Sequence[Any], number: int, first: Room) -> _Held | None:
    """Take the place behind a layer; `first`: the room of the first layer, which it has to be like.

    None if the layer has no such place.
    """
    layer = layers[number] if number < len(layers) else None
    room = None if layer is None else room_of(layer)
    if (
        room is None
        or room.shape[2] != first.shape[2]
        or room.names is not first.names
        or not room.continues(layer)
    ):
        return None
    place = room.place(layer, room.shape[2])
    return None if place is None else _Held(layer, place.taken, room.buffers, place)


def _of_encoder(encoded: Sequence[Any], number: int) -> _Held | None:
    """Return an encoder's keys and values; None if attention cannot read them in place."""
    layer = encoded[number] if number < len(encoded) else None
    keys, values = (getattr(layer, name, None) for name in FLOATS)
    if type(keys) is not Tensor or type(values) is not Tensor:
        return None
    if keys.dim() != 4 or values.dim() != 4:
        return None
    views = _native.load().LayerViews(FLOATS, (keys, values), 0, keys.shape[2])
    return _Held(layer, views, (keys, values), None)


def _scaling(site: Any, held: _Held) -> float:
    found: float | None = site.options.get("scaling")
    return 1 / math.sqrt(held.buffers[0].shape[3]) if found is None else found
