"""A decoder of transformers as a module of its tokens alone, which can be captured.

The keys and values of earlier tokens are no input: `cached_attention.py` reads them from the cache.
"""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

from cpuaccel import _transformers_names
from cpuaccel._modules import structure_of
from cpuaccel._transformers_names import (
    ATTENTION,
    ATTENTION_TABLE,
    CACHE_ARGUMENTS,
    EAGER_ATTENTION,
)
from cpuaccel.compile.capture import repeated_layers
from cpuaccel.compile.capture.attention_function import heads_of
from cpuaccel.compile.capture.cached_attention import Site, Sites
from cpuaccel.compile.common.context_values import holding

_IMPLEMENTATION = "cpuaccel"
"""The name of the attention function that calls cpuaccel::cached_attention."""

_UNREAD = frozenset({"position_ids", "cache_position", "use_cache", "output_attentions"})
"""Arguments that reach attention functions, which do not read them."""

_PLAIN = (bool, int, float, str, type(None))


class Unsupported(Exception):
    """The model cannot be captured as a decoder. The message says why."""


class Decoder(nn.Module):
    """Token numbers and positions (both N x T, int64) to scores (N x T x vocabulary).

    It holds the tensors of `model`. Its calls run inside `cached_call`.
    """

    def __init__(self, model: Any, masks: Any) -> None:
        """`masks`: the masks of a call, None, one, or a dictionary of them."""
        super().__init__()
        self.cache_name = cache_argument(type(model))
        self.model = structure_of(model)
        self.sites = Sites()
        self.mask_names = tuple(masks) if isinstance(masks, dict) else None
        replace_attention(self.model)
        self.training = model.training

    def forward(self, tokens: Tensor, positions: Tensor, logits_to_keep: int = 0) -> Tensor:
        """Return the scores of the last `logits_to_keep` tokens; 0: those of all tokens."""
        marks: dict[str | None, Tensor] = {name: mask_mark() for name in self.mask_names or (None,)}
        keep = {"logits_to_keep": logits_to_keep} if logits_to_keep else {}
        trace = _Trace(marks, self.sites.found)
        filled = self.sites.filled_by(trace.sites)
        with filled, tracing(trace), holding(repeated_layers.numbers, trace):
            output = self.model(
                input_ids=tokens,
                position_ids=positions,
                attention_mask=marks if self.mask_names else marks[None],
                use_cache=True,
                **{self.cache_name: passing_cache(trace)},
                **keep,
            )
        if len(trace.sites) != len(self.sites.found):
            raise Unsupported("its calls have different numbers of attentions")
        scores: Tensor = output.logits
        return scores


def cache_argument(model: Any) -> str:
    """Return the name of the argument of a model's forward that is the cache.

    Raises:
        Unsupported: it has none.
    """
    names = inspect.signature(model.forward).parameters
    for name in CACHE_ARGUMENTS:
        if name in names:
            return name
    raise Unsupported("its forward has no cache")


def check_attentions(model: Any) -> None:
    """Check that the attentions of a model can call cpuaccel::cached_attention.

    Raises:
        Unsupported: they do not call the attention functions of transformers, other layers keep
            states too, or the rotary embedding depends on the values of positions.
    """
    kinds = getattr(model.config.get_text_config(), "layer_types", None) or ()
    for kind in sorted({*kinds} - _ATTENTIONS):
        raise Unsupported(f"layers of type {kind}")
    if any(getattr(module, "rope_type", None) == "dynamic" for module in model.modules()):
        raise Unsupported("a rotary embedding of type dynamic, which changes with the length")
    files = {type(module).__module__ for module in model.modules()}
    if not any(hasattr(sys.modules.get(file), ATTENTION_TABLE) for file in files):
        raise Unsupported("its attentions call no attention function of transformers")


_ATTENTIONS = {"full_attention", "sliding_attention", "chunked_attention"}
"""The types of layers that keep keys and values."""


def mask_mark() -> Tensor:
    """Return a tensor that models of transformers take for a finished mask, by its dimensions."""
    return torch.ones((1, 1, 1, 1), dtype=torch.bool)


class TracedSites:
    """The attentions of one call, by their numbers: layers that repeat are traced once."""

    def __init__(self, known: list[Site]) -> None:
        """`known`: the attentions that an earlier call has found."""
        self.sites: list[Site] = []
        self._known = known
        self._updated: tuple[int, Any, Any] = (-1, None, None)

    def update(self, key: Tensor, value: Tensor, layer: int) -> None:
        """Take what an attention gives to the decoder's own cache."""
        self._updated = (layer, key, value)

    def taken(self, key: Any, value: Any) -> int:
        """Return the layer of the cache that an attention gave its keys and values to last.

        Raises:
            Unsupported: the attention reads others.
        """
        layer, updated_key, updated_value = self._updated
        self._updated = (-1, None, None)
        if updated_key is not key or updated_value is not value:
            raise Unsupported("an attention reads other keys than the cache returns")
        return layer

    def add(self, site: Site) -> int:
        """Return the number of one more attention."""
        self.sites.append(site)
        return len(self.sites) - 1

    def count(self) -> int:
        """Return how many attentions the call has reached."""
        return len(self.sites)

    def repeat(self, first: int, count: int) -> None:
        """Pass the attentions of a layer that is not traced: like those from `first` on."""
        for number in range(first, first + count):
            like, site = (self._known[each] for each in (number, len(self.sites)))
            if not like.is_like(site):
                raise Unsupported("layers that repeat have different attentions")
            self.sites.append(site)


class _Trace(TracedSites):
    """What the attentions of one call hand to the cache and to the attention function."""

    def __init__(self, marks: dict[str | None, Tensor], known: list[Site]) -> None:
        super().__init__(known)
        self._marks = marks

    def attend(
        self, module: Any, query: Tensor, key: Any, value: Any, mask: Any, options: Any
    ) -> Tensor:
        """Take what an attention gives to the attention function, and return its result."""
        layer = self.taken(key, value)
        names = [name for name, mark in self._marks.items() if mark is mask]
        if not names:
            raise Unsupported("an attention has another mask than transformers makes for the model")
        kept = plain_options(options, module)
        if kept.get("is_causal") is False and getattr(module, "is_causal", False):
            # GPT-2 of transformers 4 is causal if it gets no mask. The trace has a mark for it.
            kept["is_causal"] = None
        heads = heads_of(query, key, value)
        number = self.add(Site(module, attention_of(module), layer, names[0], kept, heads))
        attended: Tensor = torch.ops.cpuaccel.cached_attention(query, key, value, number)
        return attended


def plain_options(options: Mapping[str, Any], module: Any = None) -> dict[str, Any]:
    """Return what an attention gives to the attention function beside tensors.

    A parameter of `module` may be among them, such as the attention sinks of GPT-OSS.

    Raises:
        Unsupported: it gives something else, such as a bias.
    """
    kept = {name: each for name, each in options.items() if name not in _UNREAD}
    own = [] if module is None else list(module.parameters(recurse=False))
    for name, each in kept.items():
        if not isinstance(each, _PLAIN) and not any(each is one for one in own):
            raise Unsupported(f"an attention with {name}, a {type(each).__name__}")
    return kept


_trace: ContextVar[Any] = ContextVar("trace", default=None)


def tracing(trace: Any) -> AbstractContextManager[None]:
    """Let the attentions of models in the block call `trace.attend`."""
    return holding(_trace, trace)


def passing_cache(trace: Any) -> Any:
    """Return a cache that returns what it gets, for cpuaccel::cached_attention to keep."""

    class PassingCache(_transformers_names.Cache):  # type: ignore[misc]
        def update(self, key: Tensor, value: Tensor, layer: int, *_: Any, **__: Any) -> Any:
            trace.update(key, value, layer)
            return key, value

        def get_seq_length(self, layer_idx: int = 0) -> int:
            return 0

    return PassingCache(layers=[])


def attention_of(module: Any) -> Any:
    """Return the function that computes an attention in the model itself."""
    file: Any = sys.modules[type(module).__module__]
    functions = getattr(file, ATTENTION_TABLE, None) or _transformers_names.AttentionInterface()
    name = module.config._cpuaccel_replaces
    found = functions.get(name, getattr(file, EAGER_ATTENTION, None))
    if name not in ("sdpa", "eager") or found is None:
        raise Unsupported(f"the attention implementation {name}")
    return found


def replace_attention(model: nn.Module) -> None:
    """Let the attentions of a model, which only the caller has, call cpuaccel::cached_attention."""
    _transformers_names.AttentionInterface.register(_IMPLEMENTATION, _attend)
    made: dict[int, Any] = {}
    for module in model.modules():
        config: Any = vars(module).get("config")
        if not hasattr(config, ATTENTION):
            continue
        if id(config) not in made:
            replaced = copy.deepcopy(config)
            replaced._cpuaccel_replaces = getattr(config, ATTENTION)
            setattr(replaced, ATTENTION, _IMPLEMENTATION)
            made[id(config)] = replaced
        module.config = made[id(config)]


def _attend(module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
    return running_trace().attend(module, query, key, value, mask, options), None


def running_trace() -> Any:
    """Return the trace of the call that runs (`tracing`).

    Raises:
        Unsupported: there is none.
    """
    trace = _trace.get()
    if trace is None:
        raise Unsupported("its attention is called outside of a capture")
    return trace
