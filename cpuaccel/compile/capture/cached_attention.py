"""`cpuaccel::cached_attention`: the place of a decoder's attention in a captured graph.

A decoder of transformers gives its keys and values to a cache, and attends to what the cache
returns. In a capture, one op stands for both. It does what the model does, with the cache and the
masks of the call that runs: so a graph has no size of the cache, and holds for any kind of cache.
"""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from cpuaccel.compile.capture.capture import with_dense_rows
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


class Sites:
    """The attentions of a model in the order of a call. Copies of the model share them."""

    def __init__(self) -> None:
        self.found: list[Site] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> Sites:
        return self


@dataclass
class CachedCall:
    """The cache and the masks of one call of a decoder."""

    sites: Sites
    cache: Any
    masks: Any
    """A mask, None, or a dictionary of them."""
    _copy: Any = field(default=None, init=False)
    """The copy of the cache that a validation or a timing writes to."""
    _positions: Tensor | None = field(default=None, init=False)
    """The positions of the tokens in the cache."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, number: int) -> Tensor:
        """Return what attention number `number` returns: N x T x heads x head width.

        `query`, `key` and `value` are of the T tokens of this call, N x heads x T x head width.
        """
        site = self.sites.found[number]
        cache = self.cache
        if are_plain():  # the model or the plan is only compared or timed
            if number == 0 or self._copy is None:
                self._copy = copy_of_cache(cache)
            cache = self._copy
        # A region may write its results in any layout. torch's fast attention needs dense rows.
        query, key, value = with_dense_rows(query), with_dense_rows(key), with_dense_rows(value)
        key, value = cache.update(key, value, site.layer, *self._update_options(key.shape[2]))
        mask = self.masks if site.mask is None else self.masks[site.mask]
        attended: Tensor = site.attend(site.module, query, key, value, mask, **site.options)[0]
        return attended

    def _update_options(self, tokens: int) -> tuple[Any, ...]:
        """Return what a cache's `update` gets too: positions, before transformers 5."""
        if not caches_need_positions():
            return ()
        if self._positions is None:
            self._positions = positions_in(self.cache, tokens)
        return ({"cache_position": self._positions},)


def positions_in(cache: Any, tokens: int) -> Tensor:
    """Return the positions that a cache's next `tokens` tokens have, int64."""
    return torch.arange(tokens) + cache.get_seq_length()


@functools.cache
def caches_need_positions() -> bool:
    """Say whether `update` of a cache takes the positions of the tokens, as transformers 4 does."""
    transformers: Any = sys.modules["transformers"]
    return int(transformers.__version__.partition(".")[0]) < 5


def copy_of_cache(cache: Any) -> Any:
    """Return a copy of a cache: writing to it leaves `cache` as it is."""
    names = {type(layer).__name__ for layer in cache.layers}
    if not names <= _REPLACED:
        return copy.deepcopy(cache)
    # These layers replace their tensors and write to none.
    copied = copy.copy(cache)
    copied.layers = [copy.copy(layer) for layer in cache.layers]
    return copied


_REPLACED = {"DynamicLayer", "DynamicSlidingWindowLayer"}

_call: ContextVar[CachedCall | None] = ContextVar("cached_call", default=None)


def cached_call(call: CachedCall) -> AbstractContextManager[None]:
    """Let the attentions of graphs in the block work on the cache of `call`."""
    return holding(_call, call)


def _attend(query: Tensor, key: Tensor, value: Tensor, site: int) -> Tensor:
    call = _call.get()
    if call is None:
        raise RuntimeError("cpuaccel::cached_attention: it runs in calls of its model only")
    return call.attend(query, key, value, site)


_torch_library: Any = torch.library  # its annotations are incomplete

_library = _torch_library.Library("cpuaccel", "FRAGMENT")
_library.define("cached_attention(Tensor query, Tensor key, Tensor value, int site) -> Tensor")
_library.impl("cached_attention", _attend, "CPU")


def _fake(query: Tensor, key: Tensor, value: Tensor, site: int) -> Tensor:
    batch, heads, tokens, _ = query.shape
    return query.new_empty((batch, tokens, heads, value.shape[-1]))


_torch_library.register_fake("cpuaccel::cached_attention", _fake, lib=_library)
