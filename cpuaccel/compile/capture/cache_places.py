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

from cpuaccel.compile.capture.cache_room import FLOATS, INT8, Place, Room, room_of

_torch: Any = torch  # its annotations lack torch.classes.cpuaccel


class _Held(NamedTuple):
    """What an attention reads."""

    layer: Any
    """The layer of a cache."""
    buffers: tuple[Tensor, ...]
    """Keys and values, and the scales of both if they are int8."""
    begin: int
    end: int
    """The positions that it holds before the call."""
    place: Place | None
    """Where the call appends; None for the states of an encoder."""


class Places:
    """The places of the attentions of one call, by their numbers."""

    def __init__(self, sites: Sequence[Any], held: list[_Held], tokens: int) -> None:
        """`sites`: the attentions (`cached_attention.Site`), with what they read."""
        self._sites, self._tokens = sites, tokens
        self._layers = [each.layer for each in held]
        self._rooms = [_room(each) for each in held]
        self._begins = [each.begin for each in held]
        self._ends = [each.end for each in held]
        self._places: dict[int, Place] = {}
        # In C++: csrc/ops/region/cache_places.h
        self._known = _known(sites, held, tokens)

    @staticmethod
    def taken(
        cache: Any,
        sites: Sequence[Any],
        layers: Sequence[Any],
        encoded: Sequence[Any],
        masks: Sequence[Any],
    ) -> Places | None:
        """Take the places behind what the layers of `cache` hold, as in the call before.

        `encoded`: the layers of an encoder's keys and values; `masks`: one of floats for each
        attention, or None. None if one of them has no such place.
        """
        own = next((site.layer for site in sites if not site.is_cross), len(layers))
        first = room_of(layers[own]) if own < len(layers) else None
        if first is None:
            return None
        held = _taken(sites, layers, encoded, masks, first)
        if held is None:
            return None
        found = _last.pop(cache, None)  # two threads cannot both have it
        if found is None or not found._continue_at(sites, held, first.shape[2]):
            found = Places(sites, held, first.shape[2])
        found._places = {i: each.place for i, each in enumerate(held) if each.place is not None}
        _enter(found._known, masks)
        return found

    def _continue_at(self, sites: Sequence[Any], held: list[_Held], tokens: int) -> bool:
        """Say whether these places follow what was written to them last."""
        return (
            self._sites is sites
            and self._tokens == tokens
            and self._rooms == [_room(each) for each in held]
            and self._layers == [each.layer for each in held]
            and self._ends == [each.end for each in held]
            and self._begins == [each.begin for each in held]
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
        if not failed and not self._places:
            _last[cache] = self
        for place in self._places.values():
            place.give_back()


_last: WeakKeyDictionary[Any, Places] = WeakKeyDictionary()
"""The places of the last call with each cache. They are used again if they continue."""


def _room(held: _Held) -> Any:
    """Return what tells whether an attention still reads the same memory."""
    if held.place is not None:
        return held.place.room
    return [each.data_ptr() for each in held.buffers]


def _taken(
    sites: Sequence[Any],
    layers: Sequence[Any],
    encoded: Sequence[Any],
    masks: Sequence[Any],
    first: Room,
) -> list[_Held] | None:
    """Return what the attentions read, with the places behind it; None if one has none."""
    held: list[_Held] = []
    for site, mask in zip(sites, masks, strict=True):
        found = None
        if mask is None or isinstance(mask, Tensor):
            if site.is_cross:
                found = _of_encoder(encoded, site.layer)
            elif mask is not None or first.shape[2] == 1:
                found = _behind(layers, site.layer, first)
        if found is None:
            break
        held.append(found)
    if len(held) == len(sites):
        return held
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
    return None if place is None else _Held(layer, room.buffers, place.begin, place.used, place)


def _of_encoder(encoded: Sequence[Any], number: int) -> _Held | None:
    """Return an encoder's keys and values; None if attention cannot read them in place."""
    layer = encoded[number] if number < len(encoded) else None
    keys, values = (getattr(layer, name, None) for name in FLOATS)
    if type(keys) is not Tensor or type(values) is not Tensor:
        return None
    if keys.dim() != 4 or values.dim() != 4:
        return None
    return _Held(layer, (keys, values), 0, keys.shape[2], None)


def _known(sites: Sequence[Any], held: Sequence[_Held], tokens: int) -> Any:
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
        [-1 if each.place is None else each.place.room.window for each in held],
        [_scaling(site, each) for site, each in zip(sites, held, strict=True)],
    )


def _enter(known: Any, masks: Sequence[Any]) -> None:
    """Let the steps of plans that this thread runs find the places, with these masks."""
    different = {id(mask): mask for mask in masks if mask is not None}
    if not different:
        known.enter([], [])
        return
    number_of = {address: number for number, address in enumerate(different)}
    known.enter(list(different.values()), [number_of.get(id(mask), -1) for mask in masks])


def _scaling(site: Any, held: _Held) -> float:
    found: float | None = site.options.get("scaling")
    return 1 / math.sqrt(held.buffers[0].shape[3]) if found is None else found
