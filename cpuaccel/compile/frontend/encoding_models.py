"""`cpuaccel.optimize(model)` for models of transformers that do not generate.

One capture runs calls of all batch sizes and lengths, with a mask or without: a call without a mask
gets one of ones. The result is used as the model is (`same_class.py`).
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor, nn

from cpuaccel import _log
from cpuaccel.compile.frontend import same_class
from cpuaccel.compile.frontend.optimized_module import Optimized

_SIZES = 60.0
"""Least seconds for symbolic sizes, unless they are off: texts have a new length each time."""

_METHODS = ("get_text_features", "get_image_features", "get_audio_features")
"""Methods beside `forward` that have captures, as in CLIP."""

MAX_KINDS = 8
"""Number of sets of argument names that have captures."""


class _Method(nn.Module):
    """A method of a model as a module: torch.export takes no `**kwargs` of symbolic sizes."""

    def __init__(self, model: Any, name: str) -> None:
        super().__init__()
        self.model, self.name = model, name
        self.training = model.training

    def forward(self, given: dict[str, Any]) -> Any:
        """Return what the method returns for arguments by name."""
        return getattr(self.model, self.name)(**given)


class EncoderPlans(same_class.Plans):
    """The captures of one model, for each set of arguments that is given: of all sizes."""

    def __init__(self, model: Any, time_budget: float, sizes_budget: float) -> None:
        self.methods = ("forward", *(each for each in _METHODS if hasattr(model, each)))
        super().__init__(model, time_budget, sizes_budget)

    def _reset(self) -> None:
        super()._reset()
        self._captures: dict[str, Optimized] = {}

    def captures(self) -> dict[str, Optimized]:
        """Return what has captures, by the method that it computes."""
        return dict(self._captures)

    def remarks(self) -> list[str]:
        """Return the verdicts, and why the model runs, for `explain`."""
        verdicts = [
            f"{method}: {verdict}"
            for method, made in self.captures().items()
            for verdict in made.verdicts
        ]
        reasons = {f"{key[0]}: the model runs: {why}" for key, why in self._reasons.items() if why}
        return [*verdicts, *sorted(reasons), *filter(None, [self._gave_up])]

    def call(self, method: str, given: dict[str, Any], plain: Any) -> Any:
        """Return the output of a call, or why no capture can run it."""
        found = _arguments(given)
        if isinstance(found, str):
            return found
        self._check_model()
        kind = (method, *((name, *_facts(each)) for name, each in sorted(found.items())))
        if kind not in self._reasons:
            with self._lock:
                if kind not in self._reasons:
                    return self._first_call(kind, found, plain)
        if self._reasons[kind]:
            return self._reasons[kind]
        args, kwargs = _as_call(method, self._with_mask(method, found))
        output = self._captures[method](*args, **kwargs)
        self._changes.serve()
        return output

    def _with_mask(self, method: str, given: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call with a mask of ones, if it has tokens and no mask."""
        tokens = given.get("input_ids", given.get("inputs_embeds"))
        if tokens is None or "attention_mask" in given:
            return given
        if "attention_mask" not in self._names(method):
            return given
        return {**given, "attention_mask": torch.ones(tokens.shape[:2], dtype=torch.int64)}

    def _first_call(self, kind: Any, given: dict[str, Any], plain: Any) -> Any:
        """Return the output of the model. Capture the model, and compare it with the output."""
        output = plain()
        self._remember_model()
        try:
            reason = self._tried(kind[0], given, output)
        except Exception as error:
            reason = f"{same_class.NOT_CAPTURED}: {_log.first_line(error)}"
        if reason:
            _log.logger.warning("optimize: %s: the model runs: %s", kind[0], reason)
        self._reasons[kind] = reason
        return output

    def _tried(self, method: str, given: dict[str, Any], output: Any) -> str:
        """Return why the model runs for such calls; "" if a capture does."""
        if len(self._reasons) >= MAX_KINDS:
            return f"calls with {MAX_KINDS} other sets of arguments have captures"
        if any(name in _CACHES for name in getattr(output, "keys", tuple)()):
            return "its output has a cache: call it with use_cache=False"
        if method not in self._captures:
            model = self.model if method == "forward" else _Method(self.model, method)
            seconds = self.sizes_budget and max(self.sizes_budget, _SIZES)
            self._captures[method] = Optimized(model, self.time_budget, seconds)
        made = self._captures[method]
        masked = self._with_mask(method, given)
        # Symbolic sizes of a capture for one row include a batch of 1.
        row = {name: _first_row(each) for name, each in masked.items()}
        with torch.no_grad():
            if made.capture_for(*_as_call(method, row)) is None:
                reason = made.last()[1]
                return reason or (made.verdict.reason if made.verdict is not None else "no plan")
            if masked is given:
                return ""
            args, kwargs = _as_call(method, masked)
            exact = functools.partial(self._exact, method, given)
            found, expected = {"output": made(*args, **kwargs)}, {"output": output}
            difference = self._difference(method, found, expected, exact)
        if not difference.is_within:
            return f"without a mask, the plan's results exceed the error bound: {difference}"
        return ""

    def _exact(self, method: str, given: dict[str, Any], _: float) -> dict[str, Any] | None:
        """Return the output of a copy of the model in fp32 or float64; None if it has none."""
        dtype = torch.float32 if self.is_of_16_bits else torch.float64
        cast = {name: _cast(each, dtype) for name, each in given.items()}
        found: dict[str, Any] | None = self._by_copy(
            dtype, lambda wide: {"output": getattr(wide, method)(**cast)}
        )
        return found


_CACHES = ("cache", "past_key_values")


def _as_call(method: str, given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of the module that is captured in place of a method."""
    given = {name: _without_gaps(each) for name, each in given.items()}
    return ((), given) if method == "forward" else ((given,), {})


def _without_gaps(argument: Any) -> Any:
    """Return tokens or frames with dense memory, which captures of all sizes need.

    Whisper cuts sounds of more than thirty seconds to slices.
    """
    if not isinstance(argument, Tensor) or argument.layout != torch.strided or argument.dim() > 3:
        return argument  # images may be channels_last
    return argument.contiguous()


def _cast(argument: Any, dtype: torch.dtype) -> Any:
    floats = isinstance(argument, Tensor) and argument.is_floating_point()
    return argument.to(dtype) if floats else argument


def _facts(argument: Any) -> tuple[Any, ...]:
    return (argument.dtype, argument.dim()) if isinstance(argument, Tensor) else (argument,)


def _first_row(argument: Any) -> Any:
    return argument[:1] if isinstance(argument, Tensor) else argument


def _arguments(given: dict[str, Any]) -> dict[str, Any] | str:
    """Return the arguments of a call that a capture needs, or why none can run it."""
    if given.pop("return_dict", None) is False:
        return "return_dict=False"
    without_cache = given.get("use_cache") is False
    found = {name: each for name, each in given.items() if each is not None and each is not False}
    for name, each in found.items():
        if not isinstance(each, Tensor) or each.numel() == 0 or "label" in name:
            return f"the argument {name}"
    return {**found, "use_cache": False} if without_cache else found
