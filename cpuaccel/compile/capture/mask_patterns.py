"""Masks of transformers as patterns: causal, or causal in a window, beside what is padding.

A mask of a prompt has an element for each pair of positions. cpuaccel's attention needs none of
them. transformers calls `_pattern_of` instead of its own functions (`AttentionMaskInterface`).
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cpuaccel import _transformers_names
from cpuaccel._transformers_names import ATTENTION

_NAME = "cpuaccel_patterns"
"""The name of the attention whose masks are patterns."""

_REPLACES = "_cpuaccel_masks_of"
"""The attribute of a config that names the attention that the model has."""


@dataclass
class Pattern:
    """The mask of `tokens` positions that are appended to a cache.

    Token t sees the positions up to its own, `past` + t, of which it sees the last `window`.
    """

    tokens: int
    past: int
    """Positions of the cache before the first token."""
    window: int
    """0: all positions."""
    padding: Tensor | None
    """Which positions are none of padding, N x (past + tokens), bool. None: no position is."""
    _make: Callable[[], Any]

    @functools.cached_property
    def made(self) -> Any:
        """The mask that transformers makes; None if attention functions need none."""
        return self._make()

    @functools.cached_property
    def added(self) -> Tensor | None:
        """What is added to scores because of padding: floats, N x 1 x 1 x positions."""
        if self.padding is None:
            return None
        return added_to_scores(self.padding[:, None, None, :])


def added_to_scores(mask: Tensor) -> Tensor:
    """Return a mask as floats that are added to scores."""
    if mask.dtype != torch.bool:
        return mask.float()
    return torch.zeros(mask.shape).masked_fill_(~mask, float("-inf"))


def made(mask: Any) -> Any:
    """Return a mask as transformers makes it: a tensor, None, or what `mask` is."""
    return mask.made if isinstance(mask, Pattern) else mask


def config_for_patterns(config: Any) -> Any:
    """Return a copy of a model's config for which transformers makes patterns.

    Return `config` itself if that is not possible.
    """
    text = config.get_text_config()
    if getattr(text, "sub_configs", None) or _transformers_names.lacking(_NEEDED):
        return config
    copied = copy.copy(text)
    setattr(copied, _REPLACES, getattr(copied, ATTENTION))
    _register()
    setattr(copied, ATTENTION, _NAME)
    return copied


_NEEDED = ("AttentionMaskInterface",)


@functools.cache
def _register() -> None:
    _transformers_names.AttentionMaskInterface.register(_NAME, _pattern_of)


def _pattern_of(*, config: Any, **given: Any) -> Any:
    """Return the pattern of a mask; if it has none that is known, what transformers makes."""
    functions = _transformers_names.AttentionMaskInterface()
    make = functools.partial(functions[getattr(config, _REPLACES)], config=config, **given)
    sizes = _sizes(given)
    window = _window(config, given)
    # transformers says by this argument that a mask is causal, and that nothing else is in it.
    if not given.get("allow_is_causal_skip", False) or sizes is None or window is None:
        return make()
    tokens, past, first = sizes
    padding = given.get("attention_mask")
    if padding is not None:
        if padding.dim() != 2 or padding.shape[1] != first + past + tokens:
            return make()
        padding = padding[:, first:].to(torch.bool)
        padding = None if bool(padding.all()) else padding
        # An eager attention gives rows of which nothing is seen the mean of all values.
        if padding is not None and getattr(config, _REPLACES) != "sdpa":
            return make()
    return Pattern(tokens, past, window, padding, make)


def _sizes(given: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """Return tokens, positions before them, and the number of the first of those.

    None if the positions of a call do not end with its own tokens, as in a static cache.
    """
    if "q_length" in given:
        tokens, begin = given["q_length"], given["q_offset"]
    else:  # transformers before 5
        tokens, begin = given["cache_position"].shape[0], given["cache_position"][0]
    if isinstance(begin, Tensor):
        begin = int(begin)
    first = given.get("kv_offset", 0)
    past = begin - first
    return (tokens, past, first) if past >= 0 and given["kv_length"] == past + tokens else None


def _window(config: Any, given: Mapping[str, Any]) -> int | None:
    """Return how many positions a token sees, 0 for all; None if that is not a number."""
    local = given.get("local_size")
    if local is None:
        return 0
    # Chunks have a local size too. A token sees those of its own chunk.
    chunked = getattr(config, "attention_chunk_size", None)
    if chunked is not None or local != getattr(config, "sliding_window", None):
        return None
    return int(local)
