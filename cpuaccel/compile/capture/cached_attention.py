"""`cpuaccel::cached_attention`: the place of a decoder's attention in a captured graph.

A decoder of transformers gives its keys and values to a cache, and attends to what the cache
returns. In a capture, one op stands for both. It does what the model does, with the cache and the
masks of the call that runs: so a graph has no size of the cache, and holds for any kind of cache.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cpuaccel import _transformers_names
from cpuaccel.compile.capture import mask_patterns
from cpuaccel.compile.capture.attention_function import Heads, Kernel, is_sdpa, kernel_of
from cpuaccel.compile.capture.cache_places import Places, ReadMask, Size
from cpuaccel.compile.capture.cache_room import (
    layers_in_place,
    place_in,
    positions_of,
    without_room,
)
from cpuaccel.compile.capture.capture import with_dense_rows
from cpuaccel.compile.capture.mask_patterns import Pattern
from cpuaccel.compile.common.context_values import holding
from cpuaccel.compile.common.plain_calls import are_plain


@dataclass(frozen=True)
class Site:
    """One attention of a model: its module, and what the module hands to the attention function."""

    module: Any
    attend: Any
    """transformers' attention function."""
    layer: int
    """The layer of the cache."""
    mask: str | None
    """The key of its mask, for models with several masks."""
    options: Mapping[str, Any]
    heads: Heads | None = None
    """None: keys and values have different sizes, or are those of an encoder's states."""
    is_cross: bool = False
    """Whether it attends to an encoder's states (`cross_attention.py`)."""

    @functools.cached_property
    def kernel(self) -> Kernel | None:
        """What cpuaccel's kernel computes in the place of the attention function, if it can."""
        if self.is_cross and self.is_causal:
            return None
        return kernel_of(self.module, self.attend, self.options, self.heads)

    def is_like(self, other: Site) -> bool:
        """Say whether another attention calls the same function in the same way."""
        mine, others = (
            {name: None if isinstance(each, Tensor) else each for name, each in options.items()}
            for options in (self.options, other.options)
        )
        kind, of_other = (
            (each.attend, each.mask, each.heads, each.is_cross) for each in (self, other)
        )
        return kind == of_other and mine == others

    @functools.cached_property
    def is_causal(self) -> bool:
        """Whether the attention function masks later positions if it gets no mask."""
        found = self.options.get("is_causal")
        return bool(getattr(self.module, "is_causal", True) if found is None else found)

    def read(self, mask: Any, size: Size, past: int) -> ReadMask | None:
        """Return what the kernel reads of a mask; None if it cannot do what the mask says.

        `past`: the positions of the cache before the tokens of the call.
        """
        batch, tokens = size
        if isinstance(mask, Pattern):
            if not self.is_causal or (mask.tokens, mask.past) != (tokens, past):
                return None
            return ReadMask(mask.added, mask.window)
        if mask is None:
            if self.is_cross or tokens == 1:
                return ReadMask(None)
            is_whole = is_sdpa(self.attend) and self.is_causal and not past
            return ReadMask(None, 0) if is_whole else None
        if not isinstance(mask, Tensor) or mask.dim() != 4:
            return None
        fits = mask.shape[0] in (1, batch) and mask.shape[2:] == (tokens, past + tokens)
        return ReadMask(mask) if self.is_cross or fits else None


class Outline(NamedTuple):
    """What a call asks of all attentions of a model before it runs them."""

    sites: list[Site]
    are_direct: bool
    """Whether cpuaccel's kernel computes all of them."""
    masks: tuple[tuple[str | None, bool], ...]
    """The different masks: keys, and whether they belong to attentions to an encoder's states."""
    mask_of: tuple[int, ...]
    """The number of each attention's mask."""


class Sites:
    """The attentions of a model in the order of a call. Copies of the model share them."""

    def __init__(self) -> None:
        self.found: list[Site] = []
        self._outline: Outline | None = None

    @contextmanager
    def filled_by(self, traced: list[Site]) -> Iterator[None]:
        """Let the attentions that a call in the block finds be known, if none are yet.

        A call that fails leaves none.
        """
        is_first = not self.found
        if is_first:
            self.found = traced  # ops read them in this call
        try:
            yield
        except BaseException:
            if is_first:
                self.found = []
            raise

    def outline(self) -> Outline:
        """Return what all attentions have in common."""
        made = self._outline
        if made is None or made.sites is not self.found or len(made.mask_of) != len(self.found):
            masks = [(site.mask, site.is_cross) for site in self.found]
            different = tuple(dict.fromkeys(masks))
            are_direct = all(site.kernel is not None for site in self.found)
            numbers = tuple(map(different.index, masks))
            made = self._outline = Outline(self.found, are_direct, different, numbers)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Sites:
        return self


@dataclass
class CachedCall:
    """The cache and the masks of one call of a decoder."""

    sites: Sites
    cache: Any
    masks: Any
    """A mask, a `Pattern`, None, or a dictionary of them."""
    size: Size
    """The batch size, and the number of tokens that every attention gets."""
    encoded: Any = None
    """The cache of an encoder's keys and values, which stays as it is."""
    _copy: Any = field(default=None, init=False)
    """The copy of the cache that a validation or a timing writes to."""
    _positions: Tensor | None = field(default=None, init=False)
    """The positions of the tokens in the cache."""
    _floats: dict[int, Tensor] = field(default_factory=dict, init=False)
    """Boolean masks as floats, by their addresses."""
    _opened: Any = field(default=None, init=False)
    _layers: list[Any] = field(default_factory=list, init=False)
    """The layers of the cache `_opened` that may be written in place."""
    _places: Places | None = field(default=None, init=False)
    """The places that steps of plans write to."""

    def enter(self) -> None:
        """Take the places of all attentions in the cache, if it has them, for steps of plans."""
        if are_plain() or not self.sites.found:
            return
        outline = self.sites.outline()
        if not outline.are_direct:
            return
        self._opened, self._layers = self.cache, layers_in_place(self.cache)
        encoded = [] if self.encoded is None else self.encoded.layers
        masks = [self._mask(*each) for each in outline.masks]
        self._places = Places.taken(self, outline, self._layers, encoded, masks)

    def leave(self, *, failed: bool) -> None:
        """Let the cache hold what steps have written; nothing if the call has `failed`."""
        if self._places is not None:
            self._places.leave(self.cache, failed=failed)

    def _mask(self, key: str | None, is_cross: bool) -> Any:
        if key is None:
            return None if is_cross else self.masks
        return self.masks[key]

    def attend(self, query: Tensor, key: Tensor, value: Tensor, number: int) -> Tensor:
        """Return what attention number `number` returns: N x T x heads x head width.

        `query`, `key` and `value` are of the T tokens of this call, N x heads x T x head width.
        """
        attended: Tensor
        site = self.sites.found[number]
        cache = self.cache
        options = self._update_options(query.shape[2])
        if are_plain():  # the model or the plan is only compared or timed
            if number == 0 or self._copy is None:
                self._copy = copy_of_cache(cache)
            cache = self._copy
        elif self._places is not None:
            self._places.give_back(number)
        mask = self._mask(site.mask, site.is_cross)
        kernel = site.kernel
        if kernel is not None and _fit(query, key):
            if cache is not self._opened:
                self._opened, self._layers = cache, layers_in_place(cache)
            if site.layer < len(self._layers):
                layer, given = self._layers[site.layer], (query, key, value)
                found = self._attended_in(layer, given, site.read, mask, kernel)
                if found is not None:
                    return found
        # A region may write its results in any layout. torch's fast attention needs dense rows.
        query, key, value = with_dense_rows(query), with_dense_rows(key), with_dense_rows(value)
        key, value = cache.update(key, value, site.layer, *options)
        mask = mask_patterns.made(mask)
        attended = site.attend(site.module, query, key, value, mask, **site.options)[0]
        return attended

    def _update_options(self, tokens: int) -> tuple[Any, ...]:
        """Return what a cache's `update` gets too: positions, before transformers 5."""
        if not caches_need_positions():
            return ()
        if self._positions is None:
            self._positions = positions_in(self.cache, tokens)
        return ({"cache_position": self._positions},)

    def _attended_in(
        self, layer: Any, given: Any, reading: Any, mask: Any, kernel: Kernel
    ) -> Tensor | None:
        """Append to a layer in place, and return what the attention returns.

        `reading`: the method that reads the mask. Return None, and leave the layer as it is, if the
        kernel cannot do that.
        """
        query, key, value = given
        batch, heads, tokens, _ = query.shape
        read = reading(mask, (batch, tokens), positions_of(layer))
        if read is None or (read.added is not None and read.added.shape[1] not in (1, heads)):
            return None
        place = place_in(layer, key, value)
        if place is None:
            return None
        keys, values, *scales = place.room.buffers
        attended: Tensor = _op()(
            *given,
            keys,
            values,
            place.begin,
            place.used,
            self.float_mask(read.added),
            read.window,
            *kernel,
            *scales,
        )
        place.room.keep(layer, place, tokens)
        return attended

    def float_mask(self, mask: Any) -> Any:
        """Return a mask as floats that are added to scores. Other values are returned unchanged."""
        if not isinstance(mask, Tensor):
            return mask
        if id(mask) not in self._floats:
            self._floats[id(mask)] = mask_patterns.added_to_scores(mask)
        return self._floats[id(mask)]


@functools.cache
def _op() -> Any:
    return torch.ops.cpuaccel.attend_and_keep_.default


def _fit(query: Tensor, key: Tensor) -> bool:
    """Say whether the kernel takes queries and keys of these sizes and dtypes."""
    batch, heads, tokens, width = query.shape
    return (
        key.shape[0] == batch
        and heads % key.shape[1] == 0
        and key.shape[2:] == (tokens, width)
        and query.dtype == key.dtype
        and query.dtype in _DTYPES
    )


_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def positions_in(cache: Any, tokens: int) -> Tensor:
    """Return the positions that a cache's next `tokens` tokens have, int64."""
    begin: int = cache.get_seq_length()
    return torch.arange(begin, begin + tokens)


@functools.cache
def caches_need_positions() -> bool:
    """Say whether `update` of a cache takes the positions of the tokens, as transformers 4 does."""
    return _transformers_names.major_version() < 5


def copy_of_cache(cache: Any) -> Any:
    """Return a copy of a cache: writing to it leaves `cache` as it is."""
    replaced = (_transformers_names.DynamicLayer, _transformers_names.DynamicSlidingWindowLayer)
    if not all(type(layer) in replaced for layer in cache.layers):
        return copy.deepcopy(cache)
    # These layers replace their tensors and write to none.
    copied = copy.copy(cache)
    copied.layers = [copy.copy(layer) for layer in cache.layers]
    for layer in copied.layers:
        without_room(layer)
    return copied


_call: ContextVar[CachedCall | None] = ContextVar("cached_call", default=None)


@contextmanager
def cached_call(call: CachedCall) -> Iterator[None]:
    """Let the attentions of graphs in the block work on the cache of `call`."""
    failed = True
    call.enter()
    try:
        with holding(_call, call):
            yield
        failed = False
    finally:
        call.leave(failed=failed)


def _attend(query: Tensor, key: Tensor, value: Tensor, site: int) -> Tensor:
    call = _call.get()
    if call is None:
        raise RuntimeError("cpuaccel::cached_attention: it runs in calls of its model only")
    return call.attend(query, key, value, site)


_torch_library: Any = torch.library  # its annotations are incomplete

_library = _torch_library.Library("cpuaccel", "FRAGMENT")
_library.impl("cached_attention", _attend, "CPU")


def _fake(query: Tensor, key: Tensor, value: Tensor, site: int) -> Tensor:
    batch, heads, tokens, _ = query.shape
    return query.new_empty((batch, tokens, heads, value.shape[-1]))


_torch_library.register_fake("cpuaccel::cached_attention", _fake, lib=_library)


def _fake_in_place(query: Tensor, *_: Any) -> Tensor:
    batch, heads, tokens, width = query.shape
    return query.new_empty((batch, tokens, heads, width))


_torch_library.register_fake("cpuaccel::attend_and_keep_", _fake_in_place, lib=_library)
