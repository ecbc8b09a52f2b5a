"""`cpuaccel.optimize(model)` for models of transformers that generate.

The result has the class, the weights and the attributes of the model, so that `generate` and
pipelines work as they do. Only its forward differs: it runs a capture for prompts, or one for
single tokens, and the model itself where neither is valid. `capture/decoder.py` is what is
captured; the captures do not depend on the cache.
"""

from __future__ import annotations

import copy
import functools
import inspect
import sys
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from cpuaccel import _engine_state, _log, _native
from cpuaccel.compile.capture import training_mode
from cpuaccel.compile.capture.cached_attention import CachedCall, cached_call, copy_of_cache
from cpuaccel.compile.capture.decoder import Decoder, cache_argument
from cpuaccel.compile.capture.module_attributes import (
    AttributeSnapshot,
    ChangeCounter,
    layer_with_hooks,
)
from cpuaccel.compile.frontend.optimized_module import Optimized, is_transformed
from cpuaccel.compile.validate.comparison import Difference, compare

PROMPT, STEP = "prompts", "steps"

_SIZES = 60.0
"""Least seconds for symbolic sizes, unless they are off: prompts have a new length each time."""

MAX_BATCHES = 4
"""Number of batch sizes whose steps have captures."""

_PLANS = "_cpuaccel_plans"
_HOOKS = (
    *("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called"),
    *("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs"),
)


def generates(model: nn.Module) -> bool:
    """Say whether a model is of transformers and generates tokens."""
    transformers: Any = sys.modules.get("transformers")
    if transformers is None or not hasattr(type(model), "generate"):
        return False
    return isinstance(model, transformers.PreTrainedModel) and bool(model.can_generate())


def optimized(model: Any, time_budget: float, sizes_budget: float) -> Any:
    """Return a module that is used as `model` is, and runs plans where they hold."""
    cls: Any = type(model)
    found = object.__new__(_class_of(cls))
    # It shares the dictionaries of weights and layers with the model.
    found.__dict__.update(vars(model))
    found.__dict__.pop("forward", None)
    found.__dict__.update((name, OrderedDict()) for name in _HOOKS if name in vars(model))
    found.__dict__[_PLANS] = GenerationPlans(model, time_budget, sizes_budget)
    return found


def plans_of(module: object) -> GenerationPlans | None:
    """Return the plans of a result of `optimized`; None for anything else."""
    found = getattr(module, "__dict__", {}).get(_PLANS)
    return found if isinstance(found, GenerationPlans) else None


@functools.cache
def _class_of(cls: Any) -> Any:
    """Return a subclass of a model's class with another forward, and the same name."""

    @functools.wraps(cls.forward)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__[_PLANS].run(args, kwargs)

    def save_pretrained(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__[_PLANS].model.save_pretrained(*args, **kwargs)

    def train(self: Any, mode: bool = True) -> Any:
        self.__dict__[_PLANS].model.train(mode)
        return cls.train(self, mode)

    def again(self: Any) -> Any:
        plans = self.__dict__[_PLANS]
        return optimized, (plans.model, plans.time_budget, plans.sizes_budget)

    def deepcopy(self: Any, memo: dict[int, Any]) -> Any:
        plans = self.__dict__[_PLANS]
        return optimized(copy.deepcopy(plans.model, memo), plans.time_budget, plans.sizes_budget)

    methods = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "forward": forward,
        "save_pretrained": functools.wraps(cls.save_pretrained)(save_pretrained),
        "train": train,
        "__reduce__": again,
        "__deepcopy__": deepcopy,
    }
    return type(cls.__name__, (cls,), methods)


@dataclass(frozen=True)
class _Arguments:
    """The arguments of a call that a capture can run."""

    tokens: Tensor
    mask: Any
    positions: Tensor | None
    cache: Any
    returns_cache: bool
    logits_to_keep: int

    @property
    def kind(self) -> str:
        """What the call decodes: for steps, each batch size is a kind of its own."""
        batch, tokens = self.tokens.shape
        return PROMPT if tokens > 1 else f"{STEP} of {batch}"


class GenerationPlans:
    """The captures of one model: one for prompts of any length, one for single tokens."""

    def __init__(self, model: Any, time_budget: float, sizes_budget: float) -> None:
        self.model = model
        self.time_budget, self.sizes_budget = time_budget, sizes_budget
        self._names = tuple(inspect.signature(type(model).forward).parameters)[1:]
        self._lock = threading.RLock()
        self._changes = ChangeCounter()
        self._gave_up = ""
        self._reset()

    def _reset(self) -> None:
        self._attributes: AttributeSnapshot | None = None
        self._attention = None
        self._decoder: Decoder | None = None
        self._output: Any = None
        self._captures: dict[str, Optimized] = {}
        self.differences: dict[str, Difference] = {}
        self._reasons: dict[Any, str] = {}

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

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the model returns."""
        if is_transformed():
            return self.model(*args, **kwargs)
        given = self._reason() or self._bound(args, kwargs)
        if not isinstance(given, str):
            found = self._call(given, args, kwargs)
            if not isinstance(found, str):
                return found
            given = found
        _native.load().count_fallback("optimize", given)
        return self.model(*args, **kwargs)

    def _reason(self) -> str:
        """Return why the model runs, whatever the arguments are; "" if it need not."""
        if not _engine_state.is_enabled():
            return "cpuaccel is off"
        if training_mode.in_training(self.model):
            return "the model is in training mode"
        if torch.is_grad_enabled() and any(each.requires_grad for each in self.model.parameters()):
            return "weights require gradients: call it under torch.no_grad()"
        if torch.is_autocast_enabled("cpu"):
            return "autocast is on"
        if self.model.config.is_encoder_decoder:
            return "the model has an encoder"
        return self._gave_up

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Arguments | str:
        """Return the arguments of a call, or why no capture can run it."""
        given: dict[str, Any] = dict(zip(self._names, args, strict=False))
        given.update(kwargs)
        tokens = given.pop("input_ids", None)
        mask = given.pop("attention_mask", None)
        positions = given.pop("position_ids", None)
        cache = given.pop("cache", given.pop("past_key_values", None))
        uses_cache = given.pop("use_cache", None)
        keep = given.pop("logits_to_keep", 0)
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
        if uses_cache is None:
            uses_cache = bool(getattr(self.model.config, "use_cache", True))
        if tokens.shape[1] == 1 or keep == tokens.shape[1]:
            keep = 0
        return _Arguments(tokens, mask, positions, cache, uses_cache, keep)

    def _call(self, given: _Arguments, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the output of a call, or why no capture can run it."""
        cache = given.cache
        transformers: Any = sys.modules["transformers"]
        if cache is None:
            cache = transformers.DynamicCache(config=self.model.config)
        elif not isinstance(cache, transformers.Cache) or not hasattr(cache, "layers"):
            return f"a cache of type {type(cache).__name__}"
        self._check_model()
        key = (given.kind, type(cache), *(type(layer) for layer in cache.layers[:2]))
        if key not in self._reasons:
            with self._lock:
                if key not in self._reasons:
                    return self._first_call(key, given, cache, args, kwargs)
        if self._reasons[key]:
            return self._reasons[key]
        positions = self._positions(given, cache)
        masks = self._masks(given, cache, positions)
        assert self._decoder is not None
        if isinstance(masks, dict) != (self._decoder.mask_names is not None):
            return "masks of another structure than in the first call"
        with cached_call(CachedCall(self._decoder.sites, cache, masks)):
            scores = self._captures[given.kind](given.tokens, positions, **_keeping(given))
        self._changes.serve()
        return self._made_output(scores, cache if given.returns_cache else None)

    def _check_model(self) -> None:
        """Forget all captures if the model has changed."""
        attributes = self._attributes
        if attributes is None or (
            attributes.is_unchanged() and self._attention == _attention_of(self.model)
        ):
            return
        with self._lock:
            if many := self._changes.too_many(attributes):
                self._gave_up = f"the model {many}"
                _log.logger.warning("optimize: the model runs from now on: %s", self._gave_up)
            self._reset()

    def _first_call(
        self,
        key: Any,
        given: _Arguments,
        cache: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Return the output of the model. Compare the decoder with it, and capture the decoder."""
        before = copy_of_cache(cache)
        output = self.model(*args, **kwargs)
        if self._attributes is None:
            self._attributes = AttributeSnapshot(self.model)
            self._attention = _attention_of(self.model)
        try:
            reason = self._tried(given, before, output)
        except Exception as error:
            reason = f"not captured: {_log.first_line(error)}"
        if reason:
            _log.logger.warning("optimize: %s: the model runs: %s", given.kind, reason)
        self._reasons[key] = reason
        return output

    def _tried(self, given: _Arguments, before: Any, output: Any) -> str:
        """Return why the model runs for such calls; "" if a capture does."""
        if where := layer_with_hooks(self.model):
            return f"{where} has forward hooks"
        name = cache_argument(type(self.model))
        made = dict(output) if hasattr(output, "to_tuple") else {}
        if "logits" not in made or made.keys() - {"logits", name}:
            return f"its output has {', '.join(made) or 'no names'}"
        positions = self._positions(given, before)
        masks = self._masks(given, before, positions)
        if self._decoder is None:
            self._output = type(output)
            self._decoder = Decoder(self.model, masks).eval()
        decoder = self._decoder
        inputs, keep = (given.tokens, positions), _keeping(given)
        with torch.no_grad():
            tried = copy_of_cache(before)
            with cached_call(CachedCall(decoder.sites, tried, masks)):
                scores = decoder(*inputs, **keep)
            found = {"logits": scores, "cache": _tensors_of(tried)}
            expected = {"logits": made["logits"], "cache": _tensors_of(made.get(name, tried))}
            difference = compare(found, expected, _arithmetic(self.model), lambda error: None)
            self.differences[given.kind] = difference
            if not difference.is_within:
                return f"the decoder's results exceed the error bound: {difference}"
            if given.kind not in self._captures:
                if given.kind != PROMPT and len(self._captures.keys() - {PROMPT}) >= MAX_BATCHES:
                    return f"steps of {MAX_BATCHES} other batch sizes have captures"
                seconds = self.sizes_budget and max(self.sizes_budget, _SIZES)
                self._captures[given.kind] = Optimized(
                    decoder, self.time_budget, seconds if given.kind == PROMPT else 0.0
                )
            optimized = self._captures[given.kind]
            with cached_call(CachedCall(decoder.sites, before, masks)):
                capture = optimized.capture_for(inputs, keep)
        if capture is None:
            verdict = optimized.verdict
            return verdict.reason if verdict is not None else "no plan"
        return ""

    def _positions(self, given: _Arguments, cache: Any) -> Tensor:
        batch, tokens = given.tokens.shape
        positions = given.positions
        if positions is None:
            positions = (torch.arange(tokens) + cache.get_seq_length())[None]
        return positions.expand(batch, tokens).contiguous()

    def _masks(self, given: _Arguments, cache: Any, positions: Tensor) -> Any:
        """Return the mask of each attention, as the model itself makes it."""
        mask = given.mask
        if isinstance(mask, dict) or (mask is not None and mask.dim() == 4):
            return mask  # `generate` has made it
        from transformers import masking_utils

        make = getattr(self.model, "create_masks_for_generate", None)
        make = make or masking_utils.create_masks_for_generate
        batch, tokens = given.tokens.shape
        known = {
            "config": self.model.config,
            "inputs_embeds": torch.empty((batch, tokens, 0), dtype=self.model.dtype),
            "attention_mask": mask,
            "cache": cache,
            "position_ids": given.positions if given.positions is None else positions,
            # transformers before 5
            "input_embeds": torch.empty((batch, tokens, 0), dtype=self.model.dtype),
            "past_key_values": cache,
            "cache_position": torch.arange(tokens) + cache.get_seq_length(),
        }
        wanted = _parameters_of(make)
        return make(**{name: each for name, each in known.items() if name in wanted})

    def _made_output(self, scores: Tensor, cache: Any) -> Any:
        assert self._decoder is not None
        return self._output(logits=scores, **{self._decoder.cache_name: cache})


@functools.cache
def _parameters_of(function: Any) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


def _keeping(given: _Arguments) -> dict[str, int]:
    return {"logits_to_keep": given.logits_to_keep} if given.logits_to_keep else {}


def _attention_of(model: Any) -> Any:
    return getattr(model.config, "_attn_implementation", None)


def _arithmetic(model: Any) -> str:
    return "bf16" if model.dtype in (torch.bfloat16, torch.float16) else "fp32"


def _tensors_of(cache: Any) -> list[tuple[Any, Any]]:
    return [(layer.keys, layer.values) for layer in cache.layers]
