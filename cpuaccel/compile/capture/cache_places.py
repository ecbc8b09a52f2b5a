"""The places in a cache that all attentions of a decoder's call write to.

A plan runs all layers of a step in one call. Its attentions append to the cache themselves, so they
have to know the places before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cpuaccel.compile.capture.cache_room import INT8, Place, room_of

_torch: Any = torch  # its annotations lack torch.classes.cpuaccel


class Places:
    """The places of the attentions of one call, by their numbers."""

    def __init__(self, places: dict[int, tuple[Any, Place]], tokens: int, known: Any) -> None:
        """`places`: the layer of the cache, and the place; `known`: torch.classes.CachePlaces."""
        self._places = places
        self._tokens = tokens
        self._known = known
        known.enter()

    @staticmethod
    def taken(sites: Sequence[Any], layers: Sequence[Any], masks: Sequence[Any]) -> Places | None:
        """Take the places behind what the layers hold, as in the call before.

        `sites`: the attentions (`cached_attention.Site`); `masks`: one of floats for each of them,
        or None. None if one of the layers has no such place.
        """
        places: dict[int, tuple[Any, Place]] = {}
        first = room_of(layers[sites[0].layer]) if sites[0].layer < len(layers) else None
        if first is None:
            return None
        tokens = first.shape[2]
        for number, (site, mask) in enumerate(zip(sites, masks, strict=True)):
            layer = layers[site.layer] if site.layer < len(layers) else None
            room = None if layer is None else room_of(layer)
            is_known = isinstance(mask, Tensor) or (mask is None and tokens == 1)
            place = None
            if (
                room is not None
                and is_known
                and room.shape[2] == tokens
                and room.names is first.names
                and room.continues(layer)
            ):
                place = room.place(layer, tokens)
            if place is None:
                for _, each in places.values():
                    each.give_back()
                return None
            places[number] = layer, place
        return Places(places, tokens, _known(sites, [each for _, each in places.values()], masks))

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


def _known(sites: Sequence[Any], places: Sequence[Place], masks: Sequence[Any]) -> Any:
    """Return the places for C++: csrc/ops/region/cache_places.h."""
    different = {id(mask): mask for mask in masks if mask is not None}
    number_of = {address: number for number, address in enumerate(different)}
    rooms = [place.room for place in places]
    scales = [
        [room.buffers[at] for room in rooms] if rooms[0].names is INT8 else [] for at in (2, 3)
    ]
    return _torch.classes.cpuaccel.CachePlaces(
        rooms[0].shape[2],
        [room.buffers[0] for room in rooms],
        [room.buffers[1] for room in rooms],
        *scales,
        [place.begin for place in places],
        [place.used for place in places],
        list(different.values()),
        [number_of.get(id(mask), -1) for mask in masks],
        [_scaling(site, room.shape[3]) for site, room in zip(sites, rooms, strict=True)],
    )


def _scaling(site: Any, width: int) -> float:
    found: float | None = site.options.get("scaling")
    return 1 / math.sqrt(width) if found is None else found
