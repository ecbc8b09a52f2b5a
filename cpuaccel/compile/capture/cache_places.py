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
from cpuaccel.compile.capture.cache_room import FLOATS, Place, place_behind, positions_of

Size = tuple[int, int]
"""The batch size of a call, and its number of tokens."""


class ReadMask(NamedTuple):
    """What cpuaccel's attention reads of a mask."""

    added: Any
    """A tensor that is added to scores, or None.

    It broadcasts to N x heads x tokens x positions.
    """
    window: int = -1
    """0: tokens see positions up to their own; more: the last of these; -1: all positions."""


class _Held(NamedTuple):
    """What an attention reads."""

    layer: Any
    """The layer of a cache."""
    views: Any
    """What the layer holds, `_C.LayerViews`; None: nothing that may grow in place."""
    begin: int
    end: int
    """Its positions in the buffers."""
    buffers: tuple[Tensor, ...]
    """Keys and values, and the scales of both if they are int8."""
    place: Place | None
    """Where the call appends; None for the states of an encoder."""


class Places:
    """The places of the attentions of one call, by their numbers."""

    def __init__(self, outline: Any, held: Sequence[_Held], size: Size) -> None:
        """`outline`: of the attentions (`cached_attention.Outline`), with what they read."""
        self._outline, self._size = outline, size
        # In C++: csrc/bind/layer_places.cpp
        self._known = _native.load().LayerPlaces(
            size[1],
            [
                (
                    *(site.layer, each.layer, each.place and each.place.room),
                    *(each.views, each.begin, each.end, each.buffers),
                    *(_scale(site, each), site.kernel.soft_cap, site.kernel.sinks, mask),
                )
                for site, each, mask in zip(outline.sites, held, outline.mask_of, strict=True)
            ],
        )

    @staticmethod
    def taken(
        call: Any, outline: Any, layers: list[Any], encoded: list[Any], masks: Sequence[Any]
    ) -> Places | None:
        """Take the places behind what the layers of a cache hold, as in the call before.

        `call`: a `CachedCall`; `encoded`: the layers of an encoder's keys and values; `masks`:
        those of `outline`. None if an attention has no such place.
        """
        if not layers or torch.is_grad_enabled():
            return None
        read = _read(outline, layers, masks, call.size)
        if read is None:
            return None
        found = _last.pop(call.cache, None)  # two threads cannot both have it
        if found is None or not found._take_again(outline, layers, encoded, call.size):
            found = _newly_taken(outline, layers, encoded, call.size)
        if found is not None:
            found._known.enter([(call.float_mask(each.added), each.window) for each in read])
        return found

    def _take_again(self, outline: Any, layers: list[Any], encoded: list[Any], size: Size) -> bool:
        """Take the places behind what was written last; say whether that is what layers hold."""
        return (
            self._outline is outline
            and self._size == size
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


def _read(
    outline: Any, layers: Sequence[Any], masks: Sequence[Any], size: Size
) -> list[ReadMask] | None:
    """Return what attentions read of the masks; None if that is not all that a mask says."""
    found: list[ReadMask] = []
    for number, mask in enumerate(masks):
        site = outline.sites[outline.mask_of.index(number)]
        known = not site.is_cross and site.layer < len(layers)
        read = site.read(mask, size, positions_of(layers[site.layer]) if known else 0)
        if read is None:
            return None
        found.append(read)
    return found


def _newly_taken(outline: Any, layers: list[Any], encoded: list[Any], size: Size) -> Places | None:
    """Take the places of all attentions; None if one has none."""
    if not hasattr(_native.load(), "LayerPlaces"):
        return None  # a build without plans
    held: list[_Held] = []
    for site in outline.sites:
        read = _of_encoder(encoded, site.layer) if site.is_cross else _behind(layers, site, size)
        if read is None:
            break
        held.append(read)
    if len(held) == len(outline.sites):
        return Places(outline, held, size)
    for each in held:
        if each.place is not None:
            each.place.give_back()
    return None


def _behind(layers: Sequence[Any], site: Any, size: Size) -> _Held | None:
    """Take the place behind a layer; None if it has none."""
    if site.layer >= len(layers) or site.heads is None:
        return None
    layer, heads, (batch, tokens) = layers[site.layer], site.heads, size
    dtype = layer.keys.dtype if layer.is_initialized else heads.dtype
    place = place_behind(layer, (batch, heads.keys, tokens, heads.width), dtype)
    if place is None:
        return None
    return _Held(layer, place.taken, place.begin, place.used, place.room.buffers, place)


def _of_encoder(encoded: Sequence[Any], number: int) -> _Held | None:
    """Return an encoder's keys and values; None if attention cannot read them in place."""
    layer = encoded[number] if number < len(encoded) else None
    keys, values = (getattr(layer, name, None) for name in FLOATS)
    if type(keys) is not Tensor or type(values) is not Tensor:
        return None
    if keys.dim() != 4 or values.dim() != 4:
        return None
    count = keys.shape[2]
    views = _native.load().LayerViews(FLOATS, (keys, values), 0, count)
    return _Held(layer, views, 0, count, (keys, values), None)


def _scale(site: Any, held: _Held) -> float:
    found: float | None = site.kernel.scale
    return 1 / math.sqrt(held.buffers[0].shape[3]) if found is None else found
