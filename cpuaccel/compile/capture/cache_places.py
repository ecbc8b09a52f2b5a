"""The places in a cache that all attentions of a decoder's call write to.

A plan runs all layers of a step in one call. Its attentions append to the cache themselves, so they
have to know the places before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cpuaccel.compile.capture.cache_room import FLOATS, INT8, Place, Room, room_of

_torch: Any = torch  # its annotations lack torch.classes.cpuaccel


@dataclass
class _Held:
    """What an attention reads."""

    buffers: tuple[Tensor, ...]
    """Keys and values, and the scales of both if they are int8."""
    begin: int
    end: int
    """The positions that it holds before the call."""


class Places:
    """The places of the attentions of one call, by their numbers."""

    def __init__(self, places: dict[int, tuple[Any, Place]], tokens: int, known: Any) -> None:
        """`places`: the layer of the cache, and the place; `known`: torch.classes.CachePlaces."""
        self._places = places
        self._tokens = tokens
        self._known = known
        known.enter()

    @staticmethod
    def taken(
        sites: Sequence[Any], layers: Sequence[Any], encoded: Sequence[Any], masks: Sequence[Any]
    ) -> Places | None:
        """Take the places behind what the layers hold, as in the call before.

        `sites`: the attentions (`cached_attention.Site`); `encoded`: the layers of an encoder's
        keys and values; `masks`: one of floats for each attention, or None. None if one of the
        layers has no such place.
        """
        places: dict[int, tuple[Any, Place]] = {}
        held: list[_Held] = []
        own = next((site.layer for site in sites if not site.is_cross), len(layers))
        first = room_of(layers[own]) if own < len(layers) else None
        if first is None:
            return None
        tokens = first.shape[2]
        for number, (site, mask) in enumerate(zip(sites, masks, strict=True)):
            if site.is_cross:
                found = _held_of(encoded, site.layer)
                if found is not None and (mask is None or isinstance(mask, Tensor)):
                    held.append(found)
                    continue
            else:
                place = _place_of(layers, site.layer, first)
                if place is not None and (
                    isinstance(mask, Tensor) or (mask is None and tokens == 1)
                ):
                    places[number] = layers[site.layer], place
                    held.append(_Held(place.room.buffers, place.begin, place.used))
                    continue
            for _, each in places.values():
                each.give_back()
            return None
        return Places(places, tokens, _known(sites, tokens, held, masks))

    def give_back(self, number: int) -> None:
        """Give the place of an attention back: somebody else appends to its layer."""
        found = self._places.pop(number, None)
        if found is not None:
            found[1].give_back()

    def leave(self, *, failed: bool) -> None:
        """Let the layers hold what steps have written; nothing if the call has `failed`."""
        for number in self._known.leave():
            if not failed and number in self._places:
                layer, place = self._places.pop(number)
                place.room.keep(layer, place, self._tokens)
        for _, place in self._places.values():
            place.give_back()


def _place_of(layers: Sequence[Any], number: int, first: Room) -> Place | None:
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
    return room.place(layer, room.shape[2])


def _held_of(encoded: Sequence[Any], number: int) -> _Held | None:
    """Return an encoder's keys and values; None if attention cannot read them in place."""
    layer = encoded[number] if number < len(encoded) else None
    keys, values = (getattr(layer, name, None) for name in FLOATS)
    if type(keys) is not Tensor or type(values) is not Tensor:
        return None
    return _Held((keys, values), 0, keys.shape[2]) if keys.dim() == values.dim() == 4 else None


def _known(sites: Sequence[Any], tokens: int, held: Sequence[_Held], masks: Sequence[Any]) -> Any:
    """Return the places for C++: csrc/ops/region/cache_places.h."""
    different = {id(mask): mask for mask in masks if mask is not None}
    number_of = {address: number for number, address in enumerate(different)}
    narrow = [number for number, each in enumerate(held) if len(each.buffers) == len(INT8)]
    scales_of = {number: of for of, number in enumerate(narrow)}
    return _torch.classes.cpuaccel.CachePlaces(
        tokens,
        [each.buffers[0] for each in held],
        [each.buffers[1] for each in held],
        [held[number].buffers[2] for number in narrow],
        [held[number].buffers[3] for number in narrow],
        [scales_of.get(number, -1) for number in range(len(held))],
        [each.begin for each in held],
        [each.end for each in held],
        list(different.values()),
        [number_of.get(id(mask), -1) for mask in masks],
        [_scaling(site, each) for site, each in zip(sites, held, strict=True)],
    )


def _scaling(site: Any, held: _Held) -> float:
    found: float | None = site.options.get("scaling")
    return 1 / math.sqrt(held.buffers[0].shape[3]) if found is None else found
