"""Makes the captures of `cpuaccel.optimize`: traces the model, validates and times each capture."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import nn

from cpuaccel import _log, _tuning_cache, config
from cpuaccel.compile.capture import input_signature, quantized_models
from cpuaccel.compile.capture.call_signature import Call
from cpuaccel.compile.capture.capture import Capture, capture
from cpuaccel.compile.capture.dynamic_shapes import shapes_of
from cpuaccel.compile.capture.module_attributes import AttributeSnapshot, shown
from cpuaccel.compile.capture.torch_export import time_limit
from cpuaccel.compile.capture.traceable import untraceable_reason
from cpuaccel.compile.common import report
from cpuaccel.compile.frontend import symbolic_ahead
from cpuaccel.compile.frontend.capture_outcome import CaptureOutcome, model_runs
from cpuaccel.compile.frontend.symbolic_captures import REJECTED, SPECIALIZED, CaptureRequest
from cpuaccel.compile.validate import validation
from cpuaccel.compile.validate.verdict import MODEL, PLAN, Verdict, is_slower, medians_of

TIME_BUDGET = 1.0
"""Seconds for which the plan and the model are timed in turns."""

SIZES_BUDGET = 3.0
"""Seconds of thread time in which sizes are traced as symbols."""

_SYMBOLIC_TIME_BUDGET = 0.2
"""Maximum of TIME_BUDGET for a capture of symbolic sizes, because a call waits for it."""


class Budgets(NamedTuple):
    """Seconds for timing, and for traces of symbolic sizes."""

    time: float = TIME_BUDGET
    sizes: float = SIZES_BUDGET


@dataclass
class CaptureMaker:
    """Makes captures of one model, and remembers what earlier ones showed."""

    gave_up_reason: str = ""
    """The reason why the model is not captured any more."""
    is_slower: bool = False
    """Whether the plan for the example inputs is slower: then the model runs for all inputs."""
    was_timed: bool = False
    """Whether a capture of fixed sizes was timed."""
    longest_seconds: float = 0.0
    """Thread time of the longest capture."""

    def reset(self) -> None:
        """Forget everything but the time that captures take, because the model is another one."""
        self.gave_up_reason = ""
        self.is_slower = self.was_timed = False

    def make(
        self, model: nn.Module, request: CaptureRequest, budgets: Budgets
    ) -> tuple[CaptureOutcome, AttributeSnapshot]:
        """Return the outcome, and a snapshot of the model's attributes from before."""
        _tuning_cache.load()
        try:
            return self._make(model, request, budgets)
        finally:
            _tuning_cache.save()

    def _make(
        self, model: nn.Module, request: CaptureRequest, budgets: Budgets
    ) -> tuple[CaptureOutcome, AttributeSnapshot]:
        attributes = quantized_models.snapshot_of(model)
        if reason := self.gave_up_reason or untraceable_reason(model):
            return model_runs(request.args, request.kwargs, reason), attributes
        outcome = self._capture(model, request, budgets, attributes)
        if outcome is None:
            attributes = quantized_models.snapshot_of(model)
            outcome = self._capture(model, request, budgets, None)
            assert outcome is not None
        return outcome, attributes

    def _capture(
        self,
        model: nn.Module,
        request: CaptureRequest,
        budgets: Budgets,
        attributes: AttributeSnapshot | None,
    ) -> CaptureOutcome | None:
        """Capture and validate; None if the model set attributes that its next calls read."""
        args, kwargs, traced = request.args, request.kwargs, request.traced
        inputs = input_signature.describe(args, kwargs)
        began = time.thread_time()
        if request.only_symbolic and budgets.sizes:
            symbolic, _ = self._symbolic(model, request, budgets)
            if symbolic is not None:
                self.longest_seconds = max(self.longest_seconds, time.thread_time() - began)
                return self._for_all_sizes(model, request, budgets, attributes, symbolic)
        try:
            if traced is None:
                made = capture(model, args, kwargs)
            else:
                with time_limit(budgets.sizes or SIZES_BUDGET):
                    made = capture(model, *traced.example.example(), traced.dynamic)
            self.longest_seconds = max(self.longest_seconds, time.thread_time() - began)
        except Exception as error:
            reason = f"not captured: {_log.first_line(error)}"
            if traced is None:
                _log.logger.warning("optimize: the model runs without a plan: %s", reason)
            return CaptureOutcome(None, None, Verdict(inputs, MODEL, reason), reason)
        if traced is not None:
            reason = ""
            if made.sizes is None:
                reason = SPECIALIZED
            elif made.sizes.mismatch(shapes_of(Call.of(args, kwargs))):
                reason = REJECTED
            if reason:
                return CaptureOutcome(None, None, Verdict(inputs, MODEL, reason), reason)
            inputs = f"{inputs} and all sizes of {made.sizes}"
        if not any(made.report.regions) and not getattr(model, "does_more_than_its_graph", False):
            reason = "cpuaccel would run none of its ops"
            verdict = Verdict(inputs, MODEL, reason, made.arithmetic)
            return CaptureOutcome(None, made.report, verdict, reason, made)
        symbolic, no_symbolic_reason = self._symbolic(model, request, budgets)
        shares = None
        if symbolic is not None:
            shares = symbolic_ahead.with_shared_texts(made, symbolic, args, kwargs)
        made = shares or made
        outcome, _ = self._tried(model, request, budgets, attributes, made, inputs)
        if outcome is None:
            return None
        if outcome.run is None or symbolic is None:
            return replace(outcome, no_symbolic_reason=no_symbolic_reason)
        beside = self._validate_symbolic(model, symbolic, shares is not None, args, kwargs)
        return replace(outcome, symbolic=beside)

    def _tried(
        self,
        model: nn.Module,
        request: CaptureRequest,
        budgets: Budgets,
        attributes: AttributeSnapshot | None,
        made: Capture,
        inputs: str,
    ) -> tuple[CaptureOutcome | None, validation.Validation]:
        """Return the outcome of a capture, None as in `_capture`, and what has validated it."""
        args, kwargs = request.args, request.kwargs
        tried = validation.Validation(model, made, args, kwargs)
        with torch.no_grad():
            assigned = tried.assigned_attributes()
            if assigned:
                self.gave_up_reason = (
                    f"each call assigns attributes of the model: {shown(assigned)}"
                )
                return model_runs(args, kwargs, self.gave_up_reason), tried
            if attributes is not None and not attributes.is_unchanged():
                return None, tried
            is_first = request.traced is None
            return self._validate(made, tried, inputs, budgets, is_first=is_first), tried

    def _for_all_sizes(
        self,
        model: nn.Module,
        request: CaptureRequest,
        budgets: Budgets,
        attributes: AttributeSnapshot | None,
        made: Capture,
    ) -> CaptureOutcome | None:
        """Return the outcome of a capture of symbolic sizes that no other one stands beside."""
        args, kwargs = request.args, request.kwargs
        report.register(made.report)
        inputs = f"{input_signature.describe(args, kwargs)} and all sizes of {made.sizes}"
        outcome, tried = self._tried(model, request, budgets, attributes, made, inputs)
        if outcome is None or outcome.run is None:
            return outcome
        with torch.no_grad():
            is_right = symbolic_ahead.is_right_nearby(tried, made, args, kwargs)
        return replace(outcome, is_validated=is_right)

    def _symbolic(
        self, model: nn.Module, request: CaptureRequest, budgets: Budgets
    ) -> tuple[Capture | None, str]:
        """Return a capture of symbolic sizes if wanted; or the reason why none is made later."""
        seconds = budgets.sizes
        if not (request.with_symbolic or request.only_symbolic) or not seconds:
            return None, ""
        with suppress(TimeoutError):
            # Tracing symbols takes several times as long as tracing numbers.
            if self.longest_seconds < seconds:
                args, kwargs = request.args, request.kwargs
                return symbolic_ahead.capture_symbolic(model, args, kwargs, seconds), ""
        return None, f"torch takes more than {seconds:g} s to trace symbolic sizes"

    def _validate_symbolic(
        self,
        model: nn.Module,
        made: Capture,
        is_cheap: bool,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> CaptureOutcome | None:
        """Return the outcome of a capture of symbolic sizes; validate it now only if `is_cheap`."""
        inputs = f"{input_signature.describe(args, kwargs)} and all sizes of {made.sizes}"
        if not is_cheap:  # running it packs weights, in vain if no other sizes come
            verdict = Verdict(
                inputs, PLAN, "not validated: no other sizes were called yet", made.arithmetic
            )
            return CaptureOutcome(made.run, made.report, verdict, "", made, is_validated=False)
        found = symbolic_ahead.validate(model, made, args, kwargs)
        if not found.difference.is_within:
            return None
        reason = "not timed: same regions as the plan for the example inputs"
        verdict = Verdict(inputs, PLAN, reason, made.arithmetic, found.difference)
        is_validated = found.at_other_sizes
        return CaptureOutcome(made.run, made.report, verdict, "", made, is_validated=is_validated)

    def _validate(
        self,
        made: Capture,
        tried: validation.Validation,
        inputs: str,
        budgets: Budgets,
        *,
        is_first: bool,
    ) -> CaptureOutcome:
        """Return the outcome of a capture: it is validated, and timed if that is due.

        `is_first`: whether it is for the example inputs, rather than for sizes that come later.
        """
        difference, remark = tried.difference()
        behind = f" ({remark})" if remark else ""
        if not difference.is_within:
            reason = "the plan's results exceed the error bound" + behind
            verdict = Verdict(inputs, MODEL, reason, made.arithmetic, difference)
            return CaptureOutcome(None, None, verdict, reason)
        untimed = self._untimed_reason(is_first, budgets)
        self.was_timed = self.was_timed or is_first
        if untimed:
            reason = f"not timed: {untimed}" + behind
            verdict = Verdict(inputs, PLAN, reason, made.arithmetic, difference)
            return CaptureOutcome(made.run, made.report, verdict, "", made)
        budget = budgets.time if is_first else min(budgets.time, _SYMBOLIC_TIME_BUDGET)
        seconds = validation.time_calls({"": tried}, budget)
        slower = is_slower(seconds[PLAN], seconds[MODEL])
        self.is_slower = self.is_slower or (slower and is_first)
        reason = ("the plan is slower" if slower else "not slower than the model") + behind
        runs = MODEL if slower else PLAN
        verdict = Verdict(inputs, runs, reason, made.arithmetic, difference, medians_of(seconds))
        if slower:
            of = "the example inputs" if is_first else inputs
            return CaptureOutcome(
                None, None, verdict, f"the plan is slower than the model for {of}"
            )
        return CaptureOutcome(made.run, made.report, verdict, "", made)

    def _untimed_reason(self, is_first: bool, budgets: Budgets) -> str:
        if is_first and self.was_timed:
            return "only the example inputs are"
        if config.get("deterministic"):
            return "CPUACCEL_DETERMINISTIC"
        return "" if budgets.time > 0 else "time_budget is 0"


def verdict_if_off(
    model: nn.Module, outcome: CaptureOutcome, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Verdict | None:
    """Return the verdict if a capture is off at sizes it was not traced with, else None."""
    with torch.no_grad():
        tried = validation.Validation(model, outcome.capture, args, kwargs)
        difference, remark = tried.difference()
    if difference.is_within:
        return None
    reason = "the plan's results exceed the error bound" + (f" ({remark})" if remark else "")
    inputs, arithmetic = input_signature.describe(args, kwargs), outcome.verdict.arithmetic
    verdict = Verdict(inputs, MODEL, reason, arithmetic, difference)
    _log.logger.warning("optimize: %s", verdict)
    return verdict
