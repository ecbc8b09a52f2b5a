"""`cpuaccel.optimize(model)` for models of transformers that generate.

The result has the class, the weights and the attributes of the model, so that `generate` and
pipelines work as they do. Only its forward differs: it runs a capture for prompts, or one for
single tokens, and the model itself where neither is valid. `capture/decoder.py` is what is
captured; the captures do not depend on the cache.
"""

from __future__ import annotations

import functools
import inspect
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from cpuaccel import _log, _transformers_names
from cpuaccel.compile.capture import code_key
from cpuaccel.compile.capture.cached_attention import (
    CachedCall,
    cached_call,
    copy_of_cache,
    positions_in,
)
from cpuaccel.compile.capture.decoder import Decoder, cache_argument, check_attentions
from cpuaccel.compile.capture.mask_patterns import config_for_patterns
from cpuaccel.compile.capture.traceable import untraceable_reason
from cpuaccel.compile.frontend import same_class
from cpuaccel.compile.frontend.decoder_cache import DecoderCache, Entry
from cpuaccel.compile.frontend.optimized_module import Optimized

PROMPT, STEP = "prompts", "steps"

_SIZES = 60.0
"""Least seconds for symbolic sizes, unless they are off: prompts have a new length each time."""

COMPARED = 96
"""Tokens of a longer prompt that are compared with the model.

With more than 64 rows, plans choose the kernels that they choose for longer prompts.
"""

SHORT = 16
"""Prompts of fewer tokens are captured apart if they have no plan."""

MAX_BATCHES = 4
"""Number of batch sizes whose steps have captures."""

_MOST_EXACT = 4 << 30
"""Most bytes of a copy of a model in fp32 that decoders are compared with."""


def generates(model: Any) -> bool:
    """Say whether a model is of transformers and generates tokens."""
    return (
        same_class.is_of_transformers(model)
        and hasattr(model, "generate")
        and bool(model.can_generate())
    )


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call that a capture can run."""

    tokens: Tensor
    mask: Any
    positions: Tensor | None
    cache: Any
    returns_cache: bool
    logits_to_keep: int

    @property
    def size(self) -> tuple[int, int]:
        """The batch size, and the number of tokens."""
        batch, tokens = self.tokens.shape
        return batch, tokens

    @property
    def kind(self) -> str:
        """What the call decodes: for steps, each batch size is a kind of its own."""
        batch, tokens = self.tokens.shape
        return PROMPT if tokens > 1 else f"{STEP} of {batch}"

    @property
    def has_cache(self) -> bool:
        """Whether the model itself has a cache in such a call."""
        return self.cache is not None or self.returns_cache

    @property
    def is_short(self) -> bool:
        """Whether the prompt is so short that a plan may have none of its products."""
        return 1 < self.tokens.shape[1] < SHORT

    @property
    def name(self) -> str:
        """What the call decodes, in messages."""
        return f"{self.kind} of fewer than {SHORT} tokens" if self.is_short else self.kind


class GenerationPlans(same_class.Plans):
    """The captures of one model: one for prompts of any length, one for single tokens."""

    needs: tuple[str, ...] = _transformers_names.DECODERS
    _uses_cache_on_disk = True
    _of_encoder: frozenset[str] = frozenset()
    """What the output has of an encoder."""

    def _reset(self) -> None:
        super()._reset()
        self._decoder: Any = None
        self._output: Any = None
        self._captures: dict[str, Optimized] = {}

    def captures(self) -> dict[str, Optimized]:
        """Return the optimized decoders for prompts and for steps, as far as they are made."""
        return dict(self._captures)

    def remarks(self) -> list[str]:
        """Return the verdicts, and why the model runs, for `explain`."""
        found = [
            f"{kind}: {verdict}"
            for kind, made in self.captures().items()
            for verdict in made.verdicts
        ]
        reasons = {f"{key[0]}: the model runs: {why}" for key, why in self._reasons.items() if why}
        return [*found, *sorted(reasons), *filter(None, [self._gave_up])]

    def call(self, method: str, given: dict[str, Any], plain: Any) -> Any:
        """Return the output of a call, or why no capture can run it."""
        bound = self._bound(given)
        return bound if isinstance(bound, str) else self._call(bound, plain)

    def _bound(self, given: dict[str, Any]) -> Arguments | str:
        """Return the arguments of a call, or why no capture can run it."""
        tokens = given.pop("input_ids", None)
        mask = given.pop("attention_mask", None)
        positions = given.pop("position_ids", None)
        cache = given.pop("cache", given.pop("past_key_values", None))
        uses_cache = given.pop("use_cache", None)
        keep = given.pop("logits_to_keep", 0)
        cached = given.pop("cache_position", None)
        if given.pop("return_dict", None) is False:
            return "return_dict=False"
        for name, each in given.items():
            if each is not None and each is not False:
                return f"the argument {name}"
        if not isinstance(tokens, Tensor) or tokens.dim() != 2 or tokens.numel() == 0:
            return "no input_ids of two dimensions"
        if tokens.dtype != torch.int64 or not tokens.is_cpu:
            return "input_ids that are not int64 on the CPU"
        if isinstance(keep, bool) or not isinstance(keep, int) or keep < 0:
            return "logits_to_keep that is not a number"
        if positions is not None and (
            not isinstance(positions, Tensor)
            or positions.dim() != 2
            or positions.shape[1] != tokens.shape[1]
        ):
            return "position_ids of other sizes than the tokens"
        if cached is not None and not _continues(cached, cache, tokens.shape[1]):
            return "cache_position that does not continue the cache"
        if uses_cache is None:
            uses_cache = bool(getattr(self.model.config, "use_cache", True))
        if tokens.shape[1] == 1 or keep == tokens.shape[1]:
            keep = 0
        # A slice of tokens has other strides in each step, and captures hold for strides.
        return Arguments(tokens.contiguous(), mask, positions, cache, uses_cache, keep)

    def _call(self, given: Arguments, plain: Any) -> Any:
        """Return the output of a call, or why no capture can run it."""
        cache = self._cache_for(given)
        if isinstance(cache, str):
            return cache
        self._check_model()
        key = (given.name, given.has_cache, *self._kind_of(cache))
        if key not in self._reasons:
            with self._lock:
                if key not in self._reasons:
                    return self._first_call(key, given, cache, plain)
        if self._reasons[key]:
            return self._reasons[key]
        positions = self._positions(given, cache)
        masks = self._masks(given, cache, positions)
        self._prepare(given, cache)
        if isinstance(masks, dict) != (self._decoder.mask_names is not None):
            return "masks of another structure than in the first call"
        with self._around(given, cache, masks):
            scores = self._captures[given.kind](given.tokens, positions, **_keeping(given))
        self._changes.serve()
        return self._made_output(given, scores, cache if given.returns_cache else None)

    def _cache_for(self, given: Arguments) -> Any:
        """Return the cache of a call, or why no capture can run it."""
        cache = given.cache
        if cache is None:
            return _transformers_names.DynamicCache(config=self.model.config)
        if not isinstance(cache, _transformers_names.Cache) or not hasattr(cache, "layers"):
            return f"a cache of type {type(cache).__name__}"
        return cache

    def _kind_of(self, cache: Any) -> tuple[Any, ...]:
        """Return what the decoder is compared with the model for."""
        return type(cache), *(type(layer) for layer in cache.layers[:2])

    def _copy_of(self, cache: Any) -> Any:
        """Return a copy of a cache: writing to it leaves `cache` as it is."""
        return copy_of_cache(cache)

    def _around(self, given: Arguments, cache: Any, masks: Any) -> AbstractContextManager[Any]:
        """Let the attentions of the decoder in the block work on a cache."""
        return cached_call(CachedCall(self._decoder.sites, cache, masks, given.size))

    def _prepare(self, given: Arguments, cache: Any, *, exactly: bool = False) -> None:
        """Fill what the decoder reads beside its own cache; `exactly`: by the model itself."""

    def _made_decoder(self, masks: Any) -> Any:
        """Return what is captured: a module of tokens and positions."""
        return Decoder(self.model, masks).eval()

    def _first_call(self, key: Any, given: Arguments, cache: Any, plain: Any) -> Any:
        """Compare the decoder with the model, and capture the decoder. Return the output.

        If no copy of the cache can be made, return why the model has to run.
        """
        try:
            before = self._copy_of(cache)
        except Exception as error:  # a cache may hold anything
            reason = f"{same_class.NOT_CAPTURED}: no copy of the cache: {_log.first_line(error)}"
            self._reasons[key] = reason
            return reason
        facts = self.time_budget > 0, self.sizes_budget > 0
        disk = DecoderCache(self.model, *facts) if self._uses_cache_on_disk else None
        if disk is not None:
            try:
                if self._is_restored(disk, key, given, cache):
                    return self._call(given, plain)
            except Exception as error:
                message = _log.first_line(error)
                _log.logger.info("capture cache: %s is made anew: %s", given.kind, message)
        fewer = self._end_of(given, cache)
        if fewer is not None:
            of_fewer = self._copy_of(cache)
            self._compare(key, fewer, before, _output_of(self.model, fewer, of_fewer), disk)
            return self._call(given, plain)
        output = plain()
        self._compare(key, given, before, output, disk)
        return output

    def _is_restored(self, disk: DecoderCache, key: Any, given: Arguments, cache: Any) -> bool:
        """Say whether the capture for such calls was on disk; it is taken then."""
        if untraceable_reason(self.model) or self._has_too_many(given):
            return False
        positions = self._positions(given, cache)
        masks = self._masks(given, cache, positions)
        entry = disk.load(
            _kind_on_disk(key, given), lambda: self._decoder or self._made_decoder(masks)
        )
        if entry is None:
            return False
        found = self._captures.get(given.kind) or self._new_optimized(entry.decoder, given)
        if not found.adopt((given.tokens, positions), _keeping(given), entry.outcome):
            return False
        self._remember_model()
        self._decoder, self._output = entry.decoder, entry.output
        self._captures[given.kind] = found
        self.differences[given.kind] = entry.difference
        self._reasons[key] = ""
        return True

    def _has_too_many(self, given: Arguments) -> bool:
        """Say whether a kind of steps is one too many."""
        is_new = given.kind not in self._captures and given.kind != PROMPT
        return is_new and len(self._captures.keys() - {PROMPT}) >= MAX_BATCHES

    def _new_optimized(self, decoder: Any, given: Arguments) -> Optimized:
        seconds = self.sizes_budget and max(self.sizes_budget, _SIZES)
        return Optimized(decoder, self.time_budget, seconds if given.kind == PROMPT else 0.0)

    def _end_of(self, given: Arguments, cache: Any) -> Arguments | None:
        """Return the last tokens of a long prompt, as a prompt; None if all have to be compared."""
        mask, positions = given.mask, given.positions
        is_plain = mask is None or (isinstance(mask, Tensor) and mask.dim() == 2)
        tokens = given.tokens[:, -COMPARED:].contiguous()
        if (
            given.tokens.shape[1] <= COMPARED
            or given.logits_to_keep >= COMPARED
            or not is_plain
            or cache.get_seq_length()
        ):
            return None
        return replace(
            given,
            tokens=tokens,
            mask=None if mask is None else mask[:, -COMPARED:],
            positions=None if positions is None else positions[:, -COMPARED:],
        )

    def _exact(self, given: Arguments, before: Any, _: float) -> dict[str, Any] | None:
        """Return the results of a copy of a model of 16 bits in fp32; None for other models.

        Attention with few queries rounds nothing to 16 bits. So it may be further from the model
        than a bound for rounding allows, and nearer to what the model means.
        """
        floats = sum(each.numel() for each in self.model.parameters())
        if not self.is_of_16_bits or 4 * floats > _MOST_EXACT:
            return None

        def results(wide: Any) -> dict[str, Any]:
            cache = self._copy_of(before)
            for layer in cache.layers:
                if isinstance(layer.keys, Tensor) and layer.keys.is_floating_point():
                    layer.keys, layer.values = layer.keys.float(), layer.values.float()
            output = _output_of(wide, given, cache)
            return {"logits": output.logits, "cache": self._tensors_of(cache)}

        found: dict[str, Any] | None = self._by_copy(torch.float32, results)
        return found

    def _compare(
        self, key: Any, given: Arguments, before: Any, output: Any, disk: DecoderCache | None
    ) -> None:
        """Compare the decoder with the model's output, capture the decoder, and save that."""
        self._remember_model()
        try:
            reason = self._tried(given, before, output)
        except Exception as error:
            reason = f"{same_class.NOT_CAPTURED}: {_log.first_line(error)}"
        if reason:
            _log.logger.warning("optimize: %s: the model runs: %s", given.name, reason)
        elif (
            disk is not None and (outcome := self._captures[given.kind].last_outcome()) is not None
        ):
            entry = Entry(self._decoder, self._output, outcome, self.differences[given.kind])
            disk.save(_kind_on_disk(key, given), entry)
        self._reasons[key] = reason

    def _tried(self, given: Arguments, before: Any, output: Any) -> str:
        """Return why the model runs for such calls; "" if a capture does."""
        if reason := untraceable_reason(self.model):
            return reason
        name = cache_argument(type(self.model))
        check_attentions(self.model)
        made = dict(output) if hasattr(output, "to_tuple") else {}
        if "logits" not in made or made.keys() - {"logits", name, *self._of_encoder}:
            return f"its output has {', '.join(made) or 'no names'}"
        positions = self._positions(given, before)
        masks = self._masks(given, before, positions)
        self._prepare(given, before, exactly=True)
        if self._decoder is None:
            self._output = type(output)
            self._decoder = self._made_decoder(masks)
        decoder = self._decoder
        inputs, keep = (given.tokens, positions), _keeping(given)
        with torch.no_grad():
            tried = self._copy_of(before)
            with self._around(given, tried, masks):
                scores = decoder(*inputs, **keep)
            found = {"logits": scores, "cache": self._tensors_of(tried)}
            after = self._tensors_of(made.get(name, tried))
            expected = {"logits": made["logits"], "cache": after}
            exact = functools.partial(self._exact, given, before)
            difference = self._difference(given.kind, found, expected, exact)
            if not difference.is_within:
                return f"the decoder's results exceed the error bound: {difference}"
            is_new = given.kind not in self._captures
            if is_new:
                if self._has_too_many(given):
                    return f"steps of {MAX_BATCHES} other batch sizes have captures"
                self._captures[given.kind] = self._new_optimized(decoder, given)
            optimized = self._captures[given.kind]
            is_prompt = given.kind == PROMPT
            of_plans = self._masks_of_plans(masks) if is_prompt else masks
            with self._around(given, before, of_plans):
                capture = optimized.capture_for(inputs, keep, for_all_sizes=is_prompt)
        if capture is None:
            if is_new and given.is_short:
                del self._captures[given.kind]  # a longer prompt is captured anew
            verdict = optimized.verdict
            return verdict.reason if verdict is not None else "no plan"
        return ""

    def _positions(self, given: Arguments, cache: Any) -> Tensor:
        batch, tokens = given.tokens.shape
        positions = given.positions
        if positions is None:
            positions = positions_in(cache, tokens)[None]
            if batch == 1:
                return positions
        return positions.expand(batch, tokens).contiguous()

    def _masks(self, given: Arguments, cache: Any, positions: Tensor) -> Any:
        """Return the mask of each attention, as the model itself makes it."""
        mask = given.mask
        if isinstance(mask, dict) or (mask is not None and mask.dim() == 4):
            return mask  # `generate` has made it
        # Without a cache, positions that begin anew separate texts that do not see each other.
        masked = cache if given.has_cache else None
        make = getattr(self.model, "create_masks_for_generate", None)
        config, (batch, tokens) = self.model.config, given.size
        if make is None:
            make = _transformers_names.create_masks_for_generate
            config = config_for_patterns(config) if tokens > 1 else config
        nothing = torch.empty((batch, tokens, 0), dtype=self.model.dtype)
        known: dict[str, Any] = {
            "config": config,
            "inputs_embeds": nothing,
            "attention_mask": mask,
            "cache": masked,
            "position_ids": given.positions if given.positions is None else positions,
            # transformers before 5
            "input_embeds": nothing,
            "past_key_values": masked,
        }
        wanted = _parameters_of(make)
        if "cache_position" in wanted:
            known["cache_position"] = positions_in(cache, tokens)
        return make(**{name: each for name, each in known.items() if name in wanted})

    def _masks_of_plans(self, masks: Any) -> Any:
        """Return what stands for the masks while a plan of prompts is compared with the decoder.

        The attention of prompts is outside of plans, and other lengths have other masks.
        """
        return dict.fromkeys(masks) if isinstance(masks, dict) else None

    def _tensors_of(self, cache: Any) -> list[Any]:
        """Return the tensors of a cache that are compared with those of the model's."""
        return [(layer.keys, layer.values) for layer in cache.layers]

    def _made_output(self, given: Arguments, scores: Tensor, cache: Any) -> Any:
        """Return what the model returns."""
        return self._output(logits=scores, **{self._decoder.cache_name: cache})


def _output_of(model: Any, given: Arguments, cache: Any) -> Any:
    cached = {cache_argument(type(model)): cache}
    with torch.no_grad():
        return model(
            input_ids=given.tokens,
            attention_mask=given.mask,
            position_ids=given.positions,
            use_cache=True,
            **cached,
            **_keeping(given),
        )


def _kind_on_disk(key: Any, given: Arguments) -> Any:
    """Return what distinguishes the captures of one model on disk."""
    name, *kinds = key
    names = [code_key.name_of(each) if isinstance(each, type) else each for each in kinds]
    return name, names, given.kind, given.logits_to_keep


def _continues(positions: Tensor, cache: Any, tokens: int) -> bool:
    """Say whether positions, which transformers before 5 passes, follow what a cache holds."""
    if cache is None:
        return torch.equal(positions, torch.arange(tokens))
    return torch.equal(positions, positions_in(cache, tokens))


@functools.cache
def _parameters_of(function: Any) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


def _keeping(given: Arguments) -> dict[str, int]:
    return {"logits_to_keep": given.logits_to_keep} if given.logits_to_keep else {}
