"""`cpuaccel::cross_attention`: attention to an encoder's states, in a captured decoder.

The keys and values of the encoder's states are computed once, before the decoder runs, and stay in
the call's cache. So a graph of the decoder has neither them nor their length.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from cpuaccel.compile.capture.cached_attention import Sites
from cpuaccel.compile.capture.capture import with_dense_rows
from cpuaccel.compile.common.context_values import holding


@dataclass
class CrossCall:
    """What one call of a decoder knows beside its own cache."""

    sites: Sites
    cache: Any
    """The cache of the encoder's keys and values."""
    mask: Tensor | None
    past: int
    """The number of tokens before those of the call."""
    biases: dict[int, Tensor] = field(default_factory=dict)
    """The biases by position, by the id of the module that computes them."""

    def attend(self, query: Tensor, number: int) -> Tensor:
        """Return what attention number `number` returns: N x T x heads x head width."""
        site = self.sites.found[number]
        layer = self.cache.layers[site.layer]
        mask = None if site.mask is None else self.mask
        query = with_dense_rows(query)
        keys, values = layer.keys.to(query.dtype), layer.values.to(query.dtype)
        attended: Tensor = site.attend(site.module, query, keys, values, mask, **site.options)[0]
        return attended


_call: ContextVar[CrossCall | None] = ContextVar("cross_call", default=None)


def cross_call(call: CrossCall) -> AbstractContextManager[None]:
    """Let the cross-attentions of graphs in the block work on the cache of `call`."""
    return holding(_call, call)


@dataclass(frozen=True)
class BiasedAttention:
    """An attention function with the bias by position that a module of T5 computes.

    The layers of a model share the bias of the first one: it is computed once in a call.
    """

    attend: Any
    module: Any

    def __call__(
        self, module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any
    ) -> Any:
        """Return what the attention function returns."""
        call = _running()
        bias = call.biases.get(id(self.module))
        if bias is None:
            compute = type(self.module).compute_bias
            bias = compute(
                self.module, query.shape[2], key.shape[2], query.device, past_seen_tokens=call.past
            )
            call.biases[id(self.module)] = bias
        options["position_bias"] = bias.to(query.dtype)  # a float64 reference has other queries
        return self.attend(module, query, key, value, mask, **options)


def _running() -> CrossCall:
    call = _call.get()
    if call is None:
        raise RuntimeError("cpuaccel::cross_attention: it runs in calls of its model only")
    return call


def _attend(query: Tensor, site: int) -> Tensor:
    return _running().attend(query, site)


_torch_library: Any = torch.library  # its annotations are incomplete

_library = _torch_library.Library("cpuaccel", "FRAGMENT")
_library.impl("cross_attention", _attend, "CPU")


def _fake(query: Tensor, site: int) -> Tensor:
    batch, heads, tokens, width = query.shape
    return query.new_empty((batch, tokens, heads, width))


_torch_library.register_fake("cpuaccel::cross_attention", _fake, lib=_library)
