"""`cpuaccel.optimize(model)` for models of transformers with an encoder and a decoder.

The encoder has plans like any model that does not generate (`encoding_models.py`). The keys and
values of its states are computed once, by a capture of their own. The decoder has captures as in
`generating_models.py`, which do not depend on the encoder's length.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from cpuaccel import _transformers_names
from cpuaccel.compile.capture.cached_attention import (
    CachedCall,
    cached_call,
    copy_of_cache,
)
from cpuaccel.compile.capture.cross_attention import CrossCall, cross_call
from cpuaccel.compile.capture.seq2seq_decoder import (
    CROSS,
    SELF,
    CrossKeys,
    Seq2SeqDecoder,
    takes_positions,
)
from cpuaccel.compile.frontend import same_class
from cpuaccel.compile.frontend.encoding_models import EncoderPlans
from cpuaccel.compile.frontend.generating_models import Arguments, GenerationPlans
from cpuaccel.compile.frontend.optimized_module import Optimized

KEYS = "keys of the encoder"

_SIZES = 60.0
"""Least seconds for symbolic sizes of the encoder's states, unless they are off."""


@dataclass(frozen=True)
class Seq2SeqArguments(Arguments):
    """The arguments of a call that a capture can run."""

    encoded: Any
    """The output of the encoder."""
    encoder_mask: Tensor | None


class Seq2SeqPlans(GenerationPlans):
    """The captures of one model with an encoder."""

    methods = ("forward", "get_encoder")
    needs = _transformers_names.DECODERS_WITH_ENCODERS
    _uses_cache_on_disk = False
    _of_encoder = frozenset({"encoder_last_hidden_state", "encoder_hidden_states"})

    def _reset(self) -> None:
        super()._reset()
        self._keys: Optimized | None = None
        self._encoder: Any = None

    def captures(self) -> dict[str, Optimized]:
        """Return what has captures, by what it computes."""
        plans = None if self._encoder is None else same_class.plans_of(self._encoder)
        of_encoder = {} if plans is None else plans.captures()
        found = {f"encoder: {name}": each for name, each in of_encoder.items()}
        if self._keys is not None:
            found[KEYS] = self._keys
        return {**found, **super().captures()}

    def run(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the model returns; the encoder has plans."""
        if method == "get_encoder":
            return self._encoder_of(self.model.get_encoder(*args, **kwargs))
        return super().run(method, args, kwargs)

    def _encoder_of(self, encoder: Any) -> Any:
        if not same_class.is_of_transformers(encoder) or encoder is self.model:
            return encoder
        with self._lock:
            plans = None if self._encoder is None else same_class.plans_of(self._encoder)
            if plans is None or plans.model is not encoder:
                plans = EncoderPlans(encoder, self.time_budget, self.sizes_budget)
                self._encoder = same_class.with_plans(plans)
            return self._encoder

    def _bound(self, given: dict[str, Any]) -> Arguments | str:
        encoded = given.pop("encoder_outputs", None)
        encoder_mask = given.pop("attention_mask", None)
        if (
            encoder_mask is not None
            and _mask_maker() is None
            and self.model.config.model_type != "whisper"
            and not bool(encoder_mask.all())
        ):
            return "padding of the encoder's input, and transformers is older than 5"
        name = self.model.main_input_name
        source = given.pop(name, None)
        given["input_ids"] = given.pop("decoder_input_ids", None)
        given["attention_mask"] = given.pop("decoder_attention_mask", None)
        given["position_ids"] = given.pop("decoder_position_ids", None)
        found = super()._bound(given)
        if isinstance(found, str):
            return found
        if found.logits_to_keep:
            return "the argument logits_to_keep"
        if found.positions is not None and not takes_positions(self.model):
            return "the argument decoder_position_ids"
        if encoded is None:
            if source is None:
                return f"neither {name} nor encoder_outputs"
            mask = {} if encoder_mask is None else {"attention_mask": encoder_mask}
            encoded = self._encoder_of(self.model.get_encoder())(source, **mask)
        states = encoded[0]
        if not isinstance(states, Tensor) or states.shape[0] != found.tokens.shape[0]:
            return "states of the encoder for another batch size"
        return Seq2SeqArguments(**vars(found), encoded=encoded, encoder_mask=encoder_mask)

    def _cache_for(self, given: Arguments) -> Any:
        cache = given.cache
        if cache is None:
            parts = (_transformers_names.DynamicCache(), _transformers_names.DynamicCache())
            return _transformers_names.EncoderDecoderCache(*parts)
        if not isinstance(cache, _transformers_names.EncoderDecoderCache):
            return f"a cache of type {type(cache).__name__}"
        return cache

    def _kind_of(self, cache: Any) -> tuple[Any, ...]:
        parts = (cache.self_attention_cache, cache.cross_attention_cache)
        kinds = tuple((type(each), *(type(layer) for layer in each.layers[:1])) for each in parts)
        # A decoder that reads its positions from the cache is right only while that is empty.
        return (*kinds, _length_of(cache) == 0)

    def _copy_of(self, cache: Any) -> Any:
        copied = copy.copy(cache)
        copied.self_attention_cache = copy_of_cache(cache.self_attention_cache)
        copied.cross_attention_cache = copy_of_cache(cache.cross_attention_cache)
        copied.is_updated = dict(cache.is_updated)
        return copied

    def _made_decoder(self, masks: Any) -> Any:
        return Seq2SeqDecoder(self.model).eval()

    @contextmanager
    def _around(self, given: Any, cache: Any, masks: Any) -> Iterator[None]:
        sites, encoded = self._decoder.sites, cache.cross_attention_cache
        own = CachedCall(sites, cache.self_attention_cache, masks, given.size, encoded)
        cross = CrossCall(sites, encoded, masks[CROSS], _length_of(cache))
        with cached_call(own), cross_call(cross):
            yield

    def _tried(self, given: Any, before: Any, output: Any) -> str:
        # The model's own states: the decoder is compared, not the encoder.
        states = (output.encoder_last_hidden_state,)
        return super()._tried(replace(given, encoded=states), before, output)

    def _exact(self, given: Any, before: Any, _: float) -> None:
        """Return None: decoders are compared with the model's results alone."""

    def _reads_encoder_mask(self) -> bool:
        sites = self._decoder.sites.found
        return not sites or any(site.mask == CROSS for site in sites)

    def _prepare(self, given: Any, cache: Any, *, exactly: bool = False) -> None:
        """Compute the keys and values of the encoder's states, if the cache has none."""
        if any(cache.is_updated.values()):
            return
        states = given.encoded[0]
        with self._lock:
            if self._keys is None:
                seconds = self.sizes_budget and max(self.sizes_budget, _SIZES)
                # It is not timed: the decoder that it runs does more than the keys need.
                keys = Optimized(CrossKeys(self.model).eval(), 0.0, seconds)
                with torch.no_grad():
                    keys.capture_for((states[:1],), {})
                self._keys = keys
        found = self._keys.model(states) if exactly else self._keys(states)
        for layer, pair in enumerate(zip(found[::2], found[1::2], strict=True)):
            cache.cross_attention_cache.update(*pair, layer)
            cache.is_updated[layer] = True

    def _masks(self, given: Any, cache: Any, positions: Tensor) -> Any:
        return {
            SELF: super()._masks(given, cache.self_attention_cache, positions),
            CROSS: self._cross_mask(given),
        }

    def _cross_mask(self, given: Any) -> Any:
        """Return the mask of cross-attentions, as the model itself makes it."""
        make = _mask_maker()
        if make is None or (self._decoder is not None and not self._reads_encoder_mask()):
            return None
        states = given.encoded[0]
        empty = torch.empty((*given.tokens.shape, 0), dtype=states.dtype)
        return make(
            config=self.model.config,
            inputs_embeds=empty,
            attention_mask=given.encoder_mask,
            encoder_hidden_states=states,
        )

    def _end_of(self, given: Arguments, cache: Any) -> Arguments | None:
        return None

    def _masks_of_plans(self, masks: Any) -> Any:
        return masks

    def _tensors_of(self, cache: Any) -> list[Any]:
        parts = (cache.self_attention_cache, cache.cross_attention_cache)
        return [super(Seq2SeqPlans, self)._tensors_of(each) for each in parts]

    def _made_output(self, given: Any, scores: Tensor, cache: Any) -> Any:
        encoded = given.encoded
        return self._output(
            logits=scores,
            encoder_last_hidden_state=encoded[0],
            encoder_hidden_states=getattr(encoded, "hidden_states", None),
            encoder_attentions=getattr(encoded, "attentions", None),
            **{self._decoder.cache_name: cache},
        )


def _mask_maker() -> Any:
    """Return the function that makes masks of an encoder's states; None before transformers 5."""
    name = "create_bidirectional_mask"
    return None if _transformers_names.lacking([name]) else _transformers_names.get(name)


def _length_of(cache: Any) -> int:
    return int(cache.get_seq_length())
