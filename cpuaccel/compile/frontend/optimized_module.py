"""The module that `cpuaccel.optimize` returns: it runs captures of a model, or the model itself."""

from __future__ import annotations

import copy
import itertools
import threading
import time
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from cpuaccel import _log, _native, _transforms, config
from cpuaccel.compile.capture import input_signature, quantized_models, training_mode
from cpuaccel.compile.capture.call_signature import Call
from cpuaccel.compile.capture.capture import Capture, capture
from cpuaccel.compile.capture.dynamic_shapes import shapes_of
from cpuaccel.compile.capture.memory_overlap import is_shared
from cpuaccel.compile.capture.module_attributes import Attributes, Changes, hooked, shown
from cpuaccel.compile.capture.torch_export import within
from cpuaccel.compile.common import report, tuning_cache
from cpuaccel.compile.frontend import symbolic_ahead
from cpuaccel.compile.frontend.capture_outcome import Captured
from cpuaccel.compile.frontend.symbolic_captures import (
    REJECTED,
    SPECIALIZED,
    AnySize,
    Traced,
    Wanted,
)
from cpuaccel.compile.validate import validation
from cpuaccel.compile.validate.verdict import MODEL, PLAN, Verdict, is_slower, medians_of
from cpuaccel.quant import engine

KEPT_KINDS = 16
"""Maximum number of kinds of inputs with a capture; the model itself runs for further kinds."""

_KEPT_REFUSALS = 64
"""Maximum number of kinds of inputs for which capturing failed; further kinds are not captured."""

TIME_BUDGET = 1.0
"""Seconds for which the plan and the model are timed in turns."""

SIZES_BUDGET = 3.0
"""Seconds of thread time in which sizes are traced as symbols."""

LONGEST_IN_A_CALL = 2.0
"""Seconds of thread time that a capture may take inside a call; if it takes more, the model runs.

The time is known from the first capture, which includes torch's imports.
"""

_SYMBOLIC_BUDGET = 0.2
"""Maximum of TIME_BUDGET for a capture of symbolic sizes, because a call waits for it."""


class Optimized(nn.Module):
    """A model that runs its captures, and itself where no capture is valid.

    The model is `model`; both share the weights. A capture for inputs of one kind (dtypes, sizes,
    strides, values of other inputs) is compared with the model once, by the bounds of
    `validate/bounds.py`. The first capture within them is also timed against the model.

    When other sizes come, the model is captured with symbols for the sizes that differ
    (`symbolic_captures.py`). That capture is compared and timed once, and serves all sizes that
    it accepts. Without one, the model runs for sizes until they have come a few times.
    """

    def __init__(
        self,
        model: nn.Module,
        time_budget: float = TIME_BUDGET,
        sizes_budget: float = SIZES_BUDGET,
    ) -> None:
        super().__init__()
        self.model = model
        self.time_budget = time_budget
        self.sizes_budget = sizes_budget
        self.training = training_mode.in_training(model)
        self._captured: dict[Hashable, Captured] = {}
        self._refused: dict[Hashable, Captured] = {}
        self._any_size = AnySize(self._make_for_any_size, self._why_off)
        self._first: Verdict | None = None
        self._seconds = 0.0  # of the longest capture
        self._has_tried = False
        self._was_timed = False
        self._is_slower = False
        self._said_full = False
        self._attributes: Attributes | None = None
        self._of: tuple[nn.Module, ...] = ()  # the model that all this belongs to
        self._changes = Changes()
        self._never = ""  # the reason why the model is not captured any more
        self._said_never = False
        self._ran: list[Captured] = []  # what ran last, at most one entry
        self._lock = threading.Lock()
        self._capturing = threading.RLock()

    @property
    def verdict(self) -> Verdict | None:
        """The verdict for the example inputs; None if there is none yet.

        After loading or copying, and after a change of the model, it is for the inputs of the next
        call.
        """
        return self._first

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts for each kind of inputs that is kept, the example inputs first."""
        with self._lock:
            fixed = (*self._captured.values(), *self._refused.values())
            kept = [*(each.verdict for each in fixed), *self._any_size.verdicts()]
        first = self._first
        if first is None:
            return kept
        return [first, *(each for each in kept if each.inputs != first.inputs)]

    @property
    def reports(self) -> list[report.Report]:
        """The reports of the captures that are kept."""
        with self._lock:
            captured = (*self._captured.values(), *self._any_size.captures())
            return [each.report for each in captured if each.report is not None]

    def last(self) -> tuple[Capture | None, str]:
        """Return the capture that the last call ran; or None and the reason."""
        with self._lock:
            is_known = self._attributes is not None and self._attributes.are_as_before()
            ran = self._ran[-1] if is_known and self._ran else None
        if ran is None:
            return None, "the model has changed: call it once before"
        return ran.capture, ran.why_not

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the model returns."""
        if _is_transformed():
            return self.model(*args, **kwargs)
        reason = self._why_not(args, kwargs)
        try:
            if not reason:
                captured = self._captured_for(args, kwargs)
                self._ran[:] = (captured,)
                if captured.run is not None:
                    return captured.run(*args, **kwargs)
                reason = captured.why_not
            _native.load().count_fallback("optimize", reason)
            return self.model(*args, **kwargs)
        except Exception as error:
            self._name_expected(error, args, kwargs)
            raise

    def train(self, mode: bool = True) -> Optimized:
        """Set the mode of this and of the model, except for models that torch.export made."""
        if training_mode.is_exported(self.model):
            self.training = mode
            return self
        super().train(mode)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Optimized:
        return Optimized(copy.deepcopy(self.model, memo), self.time_budget, self.sizes_budget)

    def __reduce__(self) -> Any:
        # After loading, the model is captured and timed again.
        return Optimized, (self.model, self.time_budget, self.sizes_budget)

    def settle(self, verdict: Verdict, is_slower: bool) -> None:
        """Set a verdict that was found elsewhere; if `is_slower`, the model runs for all inputs."""
        self._first, self._is_slower = verdict, is_slower
        self._has_tried = self._was_timed = True

    def capture_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Capture | None:
        """Return the capture for these inputs, made now if necessary; None if the model runs.

        Raises:
            Exception: what the model raises.
        """
        reason = self._why_not(args, kwargs)
        if reason:
            self._first = Verdict(input_signature.describe(args, kwargs), MODEL, reason)
            return None
        captured = self._captured_for(args, kwargs, for_any_size=True)
        self._ran[:] = (captured,)
        if captured.run is None and captured.verdict.difference is None:
            # Raises now if the model does not run on these inputs.
            validation.Trial(self.model, None, args, kwargs).results()
        return captured.capture if captured.run is not None else None

    def _why_not(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        if not self._of or self._of[0] is not self.model:
            self._begin_anew()
        if not engine.is_enabled():
            return "cpuaccel is off"
        if self.training or training_mode.in_training(self.model):
            return "training mode"
        if torch.is_grad_enabled() and any(
            isinstance(each, Tensor) and each.requires_grad
            for each in itertools.chain(tree_leaves((args, kwargs)), self.parameters())
        ):
            return "gradients may be asked for: call it under torch.no_grad()"
        if self._never:
            self._say_never()
            return self._never
        if self._is_slower:
            return "slower than the model for the example inputs"
        return ""

    def _captured_for(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], *, for_any_size: bool = False
    ) -> Captured:
        """Return the capture for such a call, made now if necessary.

        `for_any_size`: whether a capture of symbolic sizes is made along with it.
        """
        key = input_signature.key_of(args, kwargs)
        if key is None:
            where, problem = input_signature.problem_of(args, kwargs)
            like = f", as in {self._first.inputs}" if self._first is not None else ""
            return self._by_model(args, kwargs, f"input {where}: {problem}{like}")
        found = self._find(key)
        if found is not None:
            self._changes.serve()
        else:
            # Calls that have a capture do not wait for this lock.
            with self._capturing:
                found = self._find(key) or self._make(key, args, kwargs, for_any_size)
        if found.run is not None and found.capture is not None and found.capture.writes:
            return self._apart(found, args, kwargs)
        return found

    def _apart(self, found: Captured, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Captured:
        """Return `found`, which mutates tensors, unless an input shares memory with one of them."""
        made = found.capture
        assert made is not None
        if is_shared(tree_leaves((args, kwargs)), made.written, made.buffers):
            return self._by_model(args, kwargs, "inputs share memory with what is written to")
        return found

    def _find(self, key: Hashable) -> Captured | None:
        with self._lock:
            if self._attributes is not None and not self._attributes.are_as_before():
                if many := self._changes.too_many(self._attributes):
                    self._never = f"the model {many}"
                self._forget()
            found = self._captured.get(key) or self._refused.get(key)
            return found or self._any_size.find(key)

    def _forget(self) -> None:
        self._captured.clear()
        self._refused.clear()
        self._any_size.clear()
        self._ran.clear()
        self._attributes = None
        self._has_tried = False

    def _begin_anew(self) -> None:
        with self._lock:
            self._forget()
            self._of, self._changes = (self.model,), Changes()
            self._never, self._said_never = "", False
            self._is_slower = self._was_timed = False

    def _say_never(self) -> None:
        with self._lock:
            is_new, self._said_never = not self._said_never, True
        if is_new:
            _log.logger.warning("optimize: the model runs as it is from now on: %s", self._never)

    def _make(
        self, key: Hashable, args: tuple[Any, ...], kwargs: dict[str, Any], for_any_size: bool
    ) -> Captured:
        waits = for_any_size or not self._has_tried  # without a time limit
        is_slow = self._seconds > LONGEST_IN_A_CALL and not waits
        served = self._any_size.serve(key, args, kwargs, captures=not is_slow)
        if served is not None:
            return served
        if is_slow:
            reason = f"capturing it takes {self._seconds:.1f} s: `capture_for` does it for an input"
            return self._by_model(args, kwargs, reason)
        with self._lock:
            is_full = len(self._captured) >= KEPT_KINDS or len(self._refused) >= _KEPT_REFUSALS
        if is_full:
            return self._say_full(args, kwargs)
        if why_not := self._any_size.why_by_model(key, args, kwargs):
            return self._by_model(args, kwargs, why_not)
        made, attributes = self._made(Wanted(args, kwargs, for_any_size=for_any_size))
        with self._lock:
            self._take(attributes)
            if made.capture is not None:
                self._captured[key] = made
            else:
                self._refused[key] = made
            if not self._has_tried:
                self._first, self._has_tried = made.verdict, True
            self._any_size.begin(args, kwargs, made)
            if made.beside is not None:
                self._any_size.add(args, kwargs, made.beside)
        self._say_made(made)
        return made

    def _make_for_any_size(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], traced: Traced
    ) -> Captured:
        made, attributes = self._made(Wanted(args, kwargs, traced))
        with self._lock:
            self._take(attributes)
        self._say_made(made)
        return made

    def _why_off(
        self, captured: Captured, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Verdict | None:
        """Return the verdict if a capture is off at sizes it was not traced with, else None."""
        with torch.no_grad():
            tried = validation.Trial(self.model, captured.capture, args, kwargs)
            difference, remark = tried.difference()
        if difference.is_within:
            return None
        reason = "the plan's results are off" + (f" ({remark})" if remark else "")
        inputs, arithmetic = input_signature.describe(args, kwargs), captured.verdict.arithmetic
        verdict = Verdict(inputs, MODEL, reason, arithmetic, difference)
        _log.logger.warning("optimize: %s", verdict)
        return verdict

    def _take(self, attributes: Attributes) -> None:
        """Take the snapshot of the model's attributes from a capture; called under the lock."""
        if self._attributes is not None and not self._attributes.are_as_before():
            self._forget()  # what was captured belongs to other attributes
        self._attributes = self._attributes or attributes

    def _say_made(self, made: Captured) -> None:
        if self._never:
            self._say_never()
        elif self._is_slower or (made.run is None and made.verdict.difference is not None):
            _log.logger.warning("optimize: %s", made.verdict)
        else:
            _log.logger.info("optimize: %s", made.verdict)

    def _made(self, wanted: Wanted) -> tuple[Captured, Attributes]:
        """Return what was captured, and a snapshot of the model's attributes from before."""
        tuning_cache.recall()
        try:
            return self._made_now(wanted)
        finally:
            tuning_cache.keep()

    def _made_now(self, wanted: Wanted) -> tuple[Captured, Attributes]:
        attributes = quantized_models.watch(self.model)
        why_not = self._never
        if where := hooked(self.model):
            why_not = why_not or f"{where} has forward hooks"
        if why_not:
            return self._by_model(wanted.args, wanted.kwargs, why_not), attributes
        found = self._captured_and_tried(wanted, attributes)
        if found is None:
            attributes = quantized_models.watch(self.model)
            found = self._captured_and_tried(wanted, None)
            assert found is not None
        return found, attributes

    def _captured_and_tried(self, wanted: Wanted, attributes: Attributes | None) -> Captured | None:
        """Capture and compare; None if the model set attributes that its next calls read."""
        args, kwargs, traced = wanted.args, wanted.kwargs, wanted.traced
        inputs = input_signature.describe(args, kwargs)
        began = time.thread_time()
        try:
            if traced is None:
                made = capture(self.model, args, kwargs)
            else:
                with within(self.sizes_budget or SIZES_BUDGET):
                    made = capture(self.model, *traced.example.example(), traced.dynamic)
            self._seconds = max(self._seconds, time.thread_time() - began)
        except Exception as error:
            reason = f"not captured: {_log.first_line(error)}"
            if traced is None:
                _log.logger.warning("optimize: the model runs as it is: %s", reason)
            return Captured(None, None, Verdict(inputs, MODEL, reason), reason)
        if traced is not None:
            reason = ""
            if made.sizes is None:
                reason = SPECIALIZED
            elif made.sizes.why_not(shapes_of(Call.of(args, kwargs))):
                reason = REJECTED
            if reason:
                return Captured(None, None, Verdict(inputs, MODEL, reason), reason)
            inputs = f"{inputs} and all sizes of {made.sizes}"
        if not any(made.report.regions):
            reason = "nothing of it is taken"
            verdict = Verdict(inputs, MODEL, reason, made.arithmetic)
            return Captured(None, made.report, verdict, reason, made)
        any_size, why_not_beside = self._symbolic(wanted)
        shares = None if any_size is None else symbolic_ahead.sharing(made, any_size, args, kwargs)
        made = shares or made
        tried = validation.Trial(self.model, made, args, kwargs)
        with torch.no_grad():
            assigned = tried.assigned()
            if assigned:
                self._never = f"each call assigns {shown(assigned)} of the model"
                return self._by_model(args, kwargs, self._never)
            if attributes is not None and not attributes.are_as_before():
                return None
            found = self._tried(made, tried, inputs)
        if found.run is None or any_size is None:
            return replace(found, why_not_beside=why_not_beside)
        return replace(found, beside=self._beside(any_size, shares is not None, args, kwargs))

    def _symbolic(self, wanted: Wanted) -> tuple[Capture | None, str]:
        """Return a capture of symbolic sizes if wanted; or the reason why none is made later."""
        seconds = self.sizes_budget
        if not wanted.for_any_size or not seconds:
            return None, ""
        with suppress(TimeoutError):
            # Tracing symbols takes several times as long as tracing numbers.
            if self._seconds < seconds:
                return symbolic_ahead.captured(self.model, wanted.args, wanted.kwargs, seconds), ""
        return None, f"torch takes more than {seconds:g} s to trace its sizes"

    def _beside(
        self, made: Capture, is_cheap: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Captured | None:
        """Return the outcome of a capture of symbolic sizes; compare it now only if `is_cheap`."""
        inputs = f"{input_signature.describe(args, kwargs)} and all sizes of {made.sizes}"
        if not is_cheap:  # running it packs weights, in vain if no other sizes come
            verdict = Verdict(inputs, PLAN, "other sizes have not come yet", made.arithmetic)
            return Captured(made.run, made.report, verdict, "", made, is_checked=False)
        found = symbolic_ahead.checked(self.model, made, args, kwargs)
        if not found.difference.is_within:
            return None
        reason = "not timed: it has the programs of the example inputs"
        verdict = Verdict(inputs, PLAN, reason, made.arithmetic, found.difference)
        is_checked = found.at_other_sizes
        return Captured(made.run, made.report, verdict, "", made, is_checked=is_checked)

    def _tried(self, made: Capture, tried: validation.Trial, inputs: str) -> Captured:
        """Return the outcome of a capture: it is compared, and timed if that is due."""
        difference, remark = tried.difference()
        behind = f" ({remark})" if remark else ""
        if not difference.is_within:
            reason = "the plan's results are off" + behind
            verdict = Verdict(inputs, MODEL, reason, made.arithmetic, difference)
            return Captured(None, None, verdict, reason)
        is_first = made.sizes is None
        untimed = self._why_untimed(is_first)
        self._was_timed = self._was_timed or is_first
        if untimed:
            reason = f"not timed: {untimed}" + behind
            verdict = Verdict(inputs, PLAN, reason, made.arithmetic, difference)
            return Captured(made.run, made.report, verdict, "", made)
        budget = self.time_budget if is_first else min(self.time_budget, _SYMBOLIC_BUDGET)
        seconds = validation.times({"": tried}, budget)
        slower = is_slower(seconds[PLAN], seconds[MODEL])
        self._is_slower = self._is_slower or (slower and is_first)
        reason = ("the plan is slower" if slower else "it is not slower") + behind
        runs = MODEL if slower else PLAN
        verdict = Verdict(inputs, runs, reason, made.arithmetic, difference, medians_of(seconds))
        if slower:
            of = "the example inputs" if is_first else inputs
            return Captured(None, None, verdict, f"slower than the model for {of}")
        return Captured(made.run, made.report, verdict, "", made)

    def _why_untimed(self, is_first: bool) -> str:
        if is_first and self._was_timed:
            return "the example inputs were"
        if config.get("deterministic"):
            return "CPUACCEL_DETERMINISTIC"
        return "" if self.time_budget > 0 else "time_budget is 0"

    def _by_model(self, args: tuple[Any, ...], kwargs: dict[str, Any], reason: str) -> Captured:
        verdict = Verdict(input_signature.describe(args, kwargs), MODEL, reason)
        return Captured(None, None, verdict, reason)

    def _say_full(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Captured:
        with self._lock:
            full = self._captured if len(self._captured) >= KEPT_KINDS else self._refused
            kept = [each.verdict.inputs for each in full.values()]
            is_new, self._said_full = not self._said_full, True
        tried = "captured" if full is self._captured else "tried in vain"
        reason = f"{len(kept)} other kinds of inputs are {tried}, the first {kept[0]}"
        if is_new:
            _log.logger.warning(
                "optimize: the model runs as it is for %s: %d other kinds of inputs are %s: %s;"
                " torch.compile(dynamic=True) has one graph for all sizes",
                input_signature.describe(args, kwargs),
                len(kept),
                tried,
                "; ".join(kept),
            )
        return self._by_model(args, kwargs, reason)

    def _name_expected(
        self, error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Add the expected inputs to an exception of the model, if other inputs were given."""
        expected = "" if self._first is None else self._first.inputs
        given = input_signature.describe(args, kwargs)
        if expected not in ("", given) and hasattr(error, "add_note"):  # Python 3.11
            error.add_note(f"cpuaccel.optimize: called with {given}, optimized for {expected}")


def _is_transformed() -> bool:
    """Say whether forward is being traced or differentiated: then the model itself has to run."""
    return (
        torch.compiler.is_dynamo_compiling()
        or torch._C._len_torch_dispatch_stack() != 0
        or _transforms.transformed()
    )
