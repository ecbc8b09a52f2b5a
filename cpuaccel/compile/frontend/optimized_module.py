"""The module that `cpuaccel.optimize` returns: it decides which capture, or the model, runs a call.

`capture_maker.py` makes the captures.
"""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from cpuaccel import _engine_state, _log, _native, _transforms
from cpuaccel._compat import dispatch_stack_length, tree_leaves
from cpuaccel.compile.capture import input_signature, quantized_models, training_mode
from cpuaccel.compile.capture.call_signature import Call
from cpuaccel.compile.capture.capture import Capture
from cpuaccel.compile.capture.dynamic_shapes import shapes_of
from cpuaccel.compile.capture.memory_overlap import overlaps_mutated
from cpuaccel.compile.capture.module_attributes import AttributeSnapshot, ChangeCounter
from cpuaccel.compile.common import report
from cpuaccel.compile.frontend.capture_maker import (
    SIZES_BUDGET,
    TIME_BUDGET,
    Budgets,
    CaptureMaker,
    verdict_if_off,
)
from cpuaccel.compile.frontend.capture_outcome import CaptureOutcome, model_runs
from cpuaccel.compile.frontend.symbolic_captures import (
    CaptureRequest,
    SymbolicCaptures,
    SymbolicTrace,
)
from cpuaccel.compile.validate import validation
from cpuaccel.compile.validate.verdict import MODEL, Verdict

MAX_CAPTURES = 16
"""Maximum number of input signatures with a capture; the model itself runs for further ones."""

_MAX_FAILURES = 64
"""Maximum number of input signatures for which capturing failed; further ones are not captured."""

LONGEST_IN_A_CALL = 2.0
"""Seconds of thread time that a capture may take inside a call; if it takes more, the model runs.

The time is known from the first capture, which includes torch's imports.
"""


class Optimized(nn.Module):
    """A model that runs its captures, and itself where no capture is valid.

    The model is `model`; both share the weights. A capture for one input signature (dtypes,
    sizes, strides, values of other inputs) is compared with the model once, by the bounds of
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
        self._maker = CaptureMaker()
        self._captures: dict[Hashable, CaptureOutcome] = {}
        self._failures: dict[Hashable, CaptureOutcome] = {}
        self._symbolic = SymbolicCaptures(self._make_symbolic, self._check_symbolic)
        self._first_verdict: Verdict | None = None
        self._has_tried = False
        self._logged_full = False
        self._attributes: AttributeSnapshot | None = None
        self._captured_model: tuple[nn.Module, ...] = ()  # the model that all this belongs to
        self._changes = ChangeCounter()
        self._logged_gave_up = False
        self._last_outcome: list[CaptureOutcome] = []  # what ran last, at most one entry
        self._lock = threading.Lock()
        self._capturing = threading.RLock()

    @property
    def verdict(self) -> Verdict | None:
        """The verdict for the example inputs; None if there is none yet.

        After loading or copying, and after a change of the model, it is for the inputs of the next
        call.
        """
        return self._first_verdict

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts for each input signature that is cached, the example inputs first."""
        with self._lock:
            fixed = (*self._captures.values(), *self._failures.values())
            cached = [*(each.verdict for each in fixed), *self._symbolic.verdicts()]
        first = self._first_verdict
        if first is None:
            return cached
        return [first, *(each for each in cached if each.inputs != first.inputs)]

    @property
    def reports(self) -> list[report.Report]:
        """The reports of the cached captures."""
        with self._lock:
            captured = (*self._captures.values(), *self._symbolic.captures())
            return [each.report for each in captured if each.report is not None]

    def last(self) -> tuple[Capture | None, str]:
        """Return the capture that the last call ran; or None and the reason."""
        with self._lock:
            is_known = self._attributes is not None and self._attributes.is_unchanged()
            ran = self._last_outcome[-1] if is_known and self._last_outcome else None
        if ran is None:
            return None, "it has no capture of the model as it is now: call it once first"
        return ran.capture, ran.fallback_reason

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the model returns."""
        if is_transformed():
            return self.model(*args, **kwargs)
        reason = self._fallback_reason(args, kwargs)
        try:
            if not reason:
                captured = self._outcome_for(args, kwargs)
                self._last_outcome[:] = (captured,)
                if captured.run is not None:
                    return captured.run(*args, **kwargs)
                reason = captured.fallback_reason
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
        self._first_verdict, self._maker.is_slower = verdict, is_slower
        self._has_tried = self._maker.was_timed = True

    def capture_for(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], *, for_all_sizes: bool = False
    ) -> Capture | None:
        """Return the capture for these inputs, made now if necessary; None if the model runs.

        `for_all_sizes`: whether a new one is to have symbolic sizes, without one of these sizes.

        Raises:
            Exception: what the model raises.
        """
        reason = self._fallback_reason(args, kwargs)
        if reason:
            self._first_verdict = Verdict(input_signature.describe(args, kwargs), MODEL, reason)
            return None
        captured = self._outcome_for(args, kwargs, ahead=True, for_all_sizes=for_all_sizes)
        self._last_outcome[:] = (captured,)
        if captured.run is None and captured.verdict.difference is None:
            # Raises now if the model does not run on these inputs.
            validation.Validation(self.model, None, args, kwargs).results()
        return captured.capture if captured.run is not None else None

    def _fallback_reason(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        if not self._captured_model or self._captured_model[0] is not self.model:
            self._reset()
        if not _engine_state.is_enabled():
            return "cpuaccel is off"
        if self.training or training_mode.in_training(self.model):
            return "the model is in training mode"
        if torch.is_grad_enabled() and any(
            isinstance(each, Tensor) and each.requires_grad
            for each in itertools.chain(tree_leaves((args, kwargs)), self.parameters())
        ):
            return "inputs or weights require gradients: call it under torch.no_grad()"
        maker = self._maker
        if maker.gave_up_reason:
            self._log_gave_up()
            return maker.gave_up_reason
        if maker.is_slower:
            return "the plan is slower than the model for the example inputs"
        return ""

    def _outcome_for(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        ahead: bool = False,
        for_all_sizes: bool = False,
    ) -> CaptureOutcome:
        """Return the capture for such a call, made now if necessary.

        `ahead`: whether a capture of symbolic sizes is made along with it; `for_all_sizes`: or in
        its place.
        """
        key = input_signature.signature_key(args, kwargs)
        if key is None:
            where, problem = input_signature.unsupported_input(args, kwargs)
            first = self._first_verdict
            like = f", as in {first.inputs}" if first is not None else ""
            return model_runs(args, kwargs, f"input {where}: {problem}{like}")
        found = self._find(key)
        if found is not None:
            self._changes.serve()
        else:
            # Calls that have a capture do not wait for this lock.
            with self._capturing:
                request = CaptureRequest(
                    args, kwargs, with_symbolic=ahead, only_symbolic=for_all_sizes
                )
                found = self._find(key) or self._make(key, request)
        if found.run is not None and found.capture is not None and found.capture.writes:
            return self._unless_overlapping(found, args, kwargs)
        return found

    def _unless_overlapping(
        self, found: CaptureOutcome, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> CaptureOutcome:
        """Return `found`, which mutates tensors, unless an input shares memory with one of them."""
        made = found.capture
        assert made is not None
        if overlaps_mutated(tree_leaves((args, kwargs)), made.written, made.buffers):
            return model_runs(
                args, kwargs, "an input shares memory with a tensor that the model mutates"
            )
        return found

    def _find(self, key: Hashable) -> CaptureOutcome | None:
        with self._lock:
            if self._attributes is not None and not self._attributes.is_unchanged():
                if many := self._changes.too_many(self._attributes):
                    self._maker.gave_up_reason = f"the model {many}"
                self._drop_captures()
            found = self._captures.get(key) or self._failures.get(key)
            return found or self._symbolic.find(key)

    def _drop_captures(self) -> None:
        self._captures.clear()
        self._failures.clear()
        self._symbolic.clear()
        self._last_outcome.clear()
        self._attributes = None
        self._has_tried = False

    def _reset(self) -> None:
        with self._lock:
            self._drop_captures()
            self._captured_model, self._changes = (self.model,), ChangeCounter()
            self._logged_gave_up = False
            self._maker.reset()

    def _log_gave_up(self) -> None:
        with self._lock:
            is_new, self._logged_gave_up = not self._logged_gave_up, True
        if is_new:
            reason = self._maker.gave_up_reason
            _log.logger.warning("optimize: the model runs without a plan from now on: %s", reason)

    def _make(self, key: Hashable, request: CaptureRequest) -> CaptureOutcome:
        args, kwargs = request.args, request.kwargs
        waits = request.with_symbolic or not self._has_tried  # without a time limit
        seconds = self._maker.longest_seconds
        is_slow = seconds > LONGEST_IN_A_CALL and not waits
        served = self._symbolic.serve(key, args, kwargs, captures=not is_slow)
        if served is not None:
            return served
        if is_slow:
            reason = f"capturing takes {seconds:.1f} s: call `capture_for` with these inputs"
            return model_runs(args, kwargs, reason)
        with self._lock:
            is_full = len(self._captures) >= MAX_CAPTURES or len(self._failures) >= _MAX_FAILURES
        if is_full:
            return self._too_many_captures(args, kwargs)
        if reason := self._symbolic.fallback_reason(key, args, kwargs):
            return model_runs(args, kwargs, reason)
        made, attributes = self._captured(request)
        made = self._keep(key, request, made, attributes)
        self._log_outcome(made)
        return made

    def _keep(
        self,
        key: Hashable,
        request: CaptureRequest,
        made: CaptureOutcome,
        attributes: AttributeSnapshot,
    ) -> CaptureOutcome:
        """Keep an outcome for calls of these sizes, or of all sizes that it accepts."""
        args, kwargs = request.args, request.kwargs
        with self._lock:
            self._take(attributes)
            if made.capture is not None and made.capture.sizes is not None:
                made = replace(made, symbolic=made)  # it serves its own sizes like all others
            elif made.capture is not None:
                self._captures[key] = made
            else:
                self._failures[key] = made
            if not self._has_tried:
                self._first_verdict, self._has_tried = made.verdict, True
            self._symbolic.begin(args, kwargs, made)
            if made.symbolic is not None:
                self._symbolic.add(args, kwargs, made.symbolic)
        return made

    def adopt(self, args: tuple[Any, ...], kwargs: dict[str, Any], made: CaptureOutcome) -> bool:
        """Take an outcome that was made elsewhere, if it accepts such a call; say whether."""
        key = input_signature.signature_key(args, kwargs)
        capture = made.capture
        call = Call.of(args, kwargs)
        if key is None or capture is None or not _accepts(capture, call):
            return False
        if self._fallback_reason(args, kwargs):
            return False
        with self._capturing:
            served = self._find(key) or self._symbolic.serve(key, args, kwargs, captures=False)
            if served is None:
                report.register(capture.report)
                attributes = quantized_models.snapshot_of(self.model)
                self._maker.was_timed = True
                made = self._keep(key, CaptureRequest(args, kwargs), made, attributes)
                self._last_outcome[:] = (made,)
                _log.logger.info("optimize: %s", made.verdict)
        return True

    def last_outcome(self) -> CaptureOutcome | None:
        """Return what the last call, or `capture_for`, took."""
        return self._last_outcome[-1] if self._last_outcome else None

    def _make_symbolic(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], traced: SymbolicTrace
    ) -> CaptureOutcome:
        made, attributes = self._captured(CaptureRequest(args, kwargs, traced))
        with self._lock:
            self._take(attributes)
        self._log_outcome(made)
        return made

    def _captured(self, request: CaptureRequest) -> tuple[CaptureOutcome, AttributeSnapshot]:
        return self._maker.make(self.model, request, Budgets(self.time_budget, self.sizes_budget))

    def _check_symbolic(
        self, outcome: CaptureOutcome, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Verdict | None:
        return verdict_if_off(self.model, outcome, args, kwargs)

    def _take(self, attributes: AttributeSnapshot) -> None:
        """Take the snapshot of the model's attributes from a capture; called under the lock."""
        if self._attributes is not None and not self._attributes.is_unchanged():
            self._drop_captures()  # what was captured belongs to other attributes
        self._attributes = self._attributes or attributes

    def _log_outcome(self, made: CaptureOutcome) -> None:
        if self._maker.gave_up_reason:
            self._log_gave_up()
        elif self._maker.is_slower or (made.run is None and made.verdict.difference is not None):
            _log.logger.warning("optimize: %s", made.verdict)
        else:
            _log.logger.info("optimize: %s", made.verdict)

    def _too_many_captures(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CaptureOutcome:
        with self._lock:
            full = self._captures if len(self._captures) >= MAX_CAPTURES else self._failures
            cached = [each.verdict.inputs for each in full.values()]
            is_new, self._logged_full = not self._logged_full, True
        tried = "have a capture" if full is self._captures else "could not be captured"
        reason = f"{len(cached)} other input signatures {tried}, the first {cached[0]}"
        if is_new:
            _log.logger.warning(
                "optimize: the model runs without a plan for %s: %d other input signatures %s: %s;"
                " torch.compile(dynamic=True) has one graph for all sizes",
                input_signature.describe(args, kwargs),
                len(cached),
                tried,
                "; ".join(cached),
            )
        return model_runs(args, kwargs, reason)

    def _name_expected(
        self, error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Add the expected inputs to an exception of the model, if other inputs were given."""
        expected = "" if self._first_verdict is None else self._first_verdict.inputs
        given = input_signature.describe(args, kwargs)
        if expected not in ("", given) and hasattr(error, "add_note"):  # Python 3.11
            error.add_note(f"cpuaccel.optimize: called with {given}, optimized for {expected}")


def _accepts(made: Capture, call: Call) -> bool:
    if made.sizes is None:
        return made.call == call
    return made.call.spec == call.spec and not made.sizes.mismatch(shapes_of(call))


def is_transformed() -> bool:
    """Say whether forward is being traced or differentiated: then the model itself has to run."""
    return (
        torch.compiler.is_dynamo_compiling()
        or dispatch_stack_length() != 0
        or _transforms.transformed()
    )
