"""The places in a cache that all attentions of a decoder's call write to.

A plan runs all layers of a step in one call. Its attentions append to the cache themselves, so they
have to know the places before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from cpuaccel.compile.capture.cache_room import INT8, Place, Room, room_of

_torch: Any = torch  # its annotations lack torch.classes.cpuaccel

_last: WeakKeyDictionary[Any, Places] = WeakKeyDictionary()
"""The places of the last call with each cache. They are used again if they continue."""


class Places:
    """The places of the attentions of one call, by their numbers."""

    def __init__(self, sites: Sequence[Any], layers: list[Any], places: list[Place]) -> None:
        """`sites`: the attentions (`cached_attention.Site`), with the layers of the cache."""
        self._sites, self._layers = sites, layers
        self._rooms = [place.room for place in places]
        self._tokens: int = self._rooms[0].shape[2]
        self._begins = [place.begin for place in places]
        self._ends = [place.used for place in places]
        self._places: dict[int, Place] = {}
        # In C++: csrc/ops/region/cache_places.h
        self._known = _known(sites, self._rooms, self._begins, self._ends)

    @staticmethod
    def taken(
        cache: Any, sites: Sequence[Any], layers: Sequence[Any], masks: Sequence[Any]
    ) -> Places | None:
        """Take the places behind what the layers of `cache` hold, as in the call before.

        `masks`: one of floats for each attention, or None. None if one has no such place.
        """
        if not layers or any(site.layer >= len(layers) for site in sites):
            return None
        of_sites = [layers[site.layer] for site in sites]
        places = _taken(of_sites, masks)
        if places is None:
            return None
        found = _last.pop(cache, None)  # two threads cannot both have it
        if found is None or not found._continue_at(sites, of_sites, places):
            found = Places(sites, of_sites, places)
        found._places = dict(enumerate(places))
        _enter(found._known, masks)
        return found

    def _continue_at(self, sites: Sequence[Any], layers: list[Any], places: list[Place]) -> bool:
        """Say whether `places` follow what was written to these places last."""
        return (
            self._sites is sites
            and self._tokens == places[0].room.shape[2]
            and self._rooms == [place.room for place in places]
            and self._layers == layers
            and self._ends == [place.used for place in places]
            and self._begins == [place.begin for place in places]
        )

    def give_back(self, number: int) -> None:
        """Give the place of an attention back: somebody else appends to its layer."""
        found = self._places.pop(number, None)
        if found is not None:
            found.give_back()

    def leave(self, cache: Any, *, failed: bool) -> None:
        """Let the layers hold what steps have written; nothing if the call has `failed`."""
        numbers, begins, views = self._known.leave()
        each = len(views) // max(len(numbers), 1)
        tokens = self._tokens
        for i, number in enumerate(numbers):
            if failed or number not in self._places:
                continue
            place = self._places.pop(number)
            end = place.used + tokens
            held = tuple(views[i * each : i * each + each])
            place.room.hold(self._layers[number], held, begins[i], end, tokens)
            self._begins[number], self._ends[number] = begins[i], end
        if not failed and len(numbers) == len(self._rooms) and not self._places:
            _last[cache] = self
        for place in self._places.values():
            place.give_back()


def _taken(layers: list[Any], masks: Sequence[Any]) -> list[Place] | None:
    """Return the places behind what the layers hold; None if one of them has none."""
    places: list[Place] = []
    first = room_of(layers[0])
    if first is not None:
        tokens = first.shape[2]
        for layer, mask in zip(layers, masks, strict=True):
            place = None
            if isinstance(mask, Tensor) or (mask is None and tokens == 1):
                place = _place_behind(layer, first)
            if place is None:
                break
            places.append(place)
    if len(places) == len(layers):
        return places
    for each in places:
        each.give_back()
    return None


def _place_behind(layer: Any, first: Room) -> Place | None:
    """Take the place behind what a layer holds, if its room is like that of the first layer."""
    room = room_of(layer)
    if room is None or room.names is not first.names or room.shape[2] != first.shape[2]:
        return None
    return room.place(layer, room.shape[2]) if room.continues(layer) else None


def _known(sites: Sequence[Any], rooms: Sequence[Room], begins: list[int], ends: list[int]) -> Any:
    scales = [
        [room.buffers[at] for room in rooms] if rooms[0].names is INT8 else [] for at in (2, 3)
    ]
    return _torch.classes.cpuaccel.CachePlaces(
        rooms[0].shape[2],
        [room.buffers[0] for room in rooms],
        [room.buffers[1] for room in rooms],
        *scales,
        begins,
        ends,
        [room.window for room in rooms],
        [_scaling(site, room.shape[3]) for site, room in zip(sites, rooms, strict=True)],
    )


def _enter(known: Any, masks: Sequence[Any]) -> None:
    """Let the steps of plans that this thread runs find the places, with these masks."""
    different = {id(mask): mask for mask in masks if mask is not None}
    if not different:
        known.enter([], [])
        return
    number_of = {address: number for number, address in enumerate(different)}
    known.enter(list(different.values()), [number_of.get(id(mask), -1) for mask in masks])


def _scaling(site: Any, width: int) -> float:
    found: float | None = site.options.get("scaling")
    return 1 / math.sqrt(width) if found is None else found
