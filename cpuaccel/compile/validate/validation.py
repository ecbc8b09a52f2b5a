"""Runs a model and its capture on the same inputs, to compare their results and time them.

It has no side effects: the tensors that they write to, and the random number generator, are
restored.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from cpuaccel import _interleaved_timing, _log, _native
from cpuaccel._compat import tree_map
from cpuaccel._modules import tensors_of
from cpuaccel.compile.capture.capture import Capture
from cpuaccel.compile.capture.memory_overlap import overlaps_itself
from cpuaccel.compile.capture.module_attributes import AttributeSnapshot
from cpuaccel.compile.common.plain_calls import plain_calls
from cpuaccel.compile.validate.comparison import Difference, compare
from cpuaccel.compile.validate.verdict import MODEL, PLAN

Run = Callable[..., Any]

_HALVES = (torch.bfloat16, torch.float16)


class Validation:
    """Runs `model`, and `capture` if there is one, with `args` and `kwargs`."""

    def __init__(
        self,
        model: nn.Module,
        capture: Capture | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self._model = model
        self._capture = capture
        self._args, self._kwargs = args, kwargs
        # Without a capture, it is not known which tensors the model mutates.
        self._buffers = capture.buffers if capture is not None else _state_of(model)
        self._writes = capture is None or capture.writes
        self._reference: Any = None  # the float64_reference of an int8 model, if it was asked for
        self._expected: tuple[dict[str, Any], bool] | None = None
        """The results of a run of the model that has left nothing behind, for `difference`."""
        self._wide: dict[torch.dtype, nn.Module] = {}
        """Copies of a model that mutates nothing, in fp32 or float64."""

    def at(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Validation:
        """Return the validation of the same capture with other arguments."""
        found = Validation(self._model, self._capture, args, kwargs)
        found._wide = self._wide
        return found

    def assigned_attributes(self) -> list[str]:
        """Run the model; return the names of attributes that each call assigns anew.

        Attributes that the first call sets and the next one leaves, such as a table of sines, are
        kept.

        Raises:
            Exception: what the model raises.
        """
        before = AttributeSnapshot(self._model, containers=True)
        try:
            expected = self._run_model()
            if before.is_unchanged():
                self._expected = expected
                return []
            once = AttributeSnapshot(self._model, containers=True)
            self.results()
        except Exception:
            before.restore()
            raise
        names = once.changes()
        if names:
            before.restore()
        return names

    def difference(self) -> tuple[Difference, str]:
        """Return how far the capture's results are from the model's, and a remark.

        Raises:
            Exception: what the model raises.
        """
        assert self._capture is not None
        (expected, draws), self._expected = self._expected or self._run_model(), None
        try:
            with self._undisturbed():
                found = self._outputs(self._capture.run)
        except Exception as error:
            return _failed(error), ""
        arithmetic = self._capture.arithmetic
        difference = compare(found, expected, arithmetic, self._exact)
        if difference.is_within:
            return difference, "compared with the same random numbers" if draws else ""
        if draws:
            return difference, "the plan draws random numbers, perhaps in another order"
        with self._undisturbed():
            again = self._outputs(self._model)
        if not compare(again, expected, arithmetic, lambda error: None).is_within:
            return difference, "the model's results differ from call to call"
        return difference, ""

    def calls(self) -> dict[str, Callable[[], Any]]:
        """Return the functions to time, by name."""
        runs: dict[str, Run] = {MODEL: self._model}
        if self._capture is not None:
            runs = {PLAN: self._capture.run, **runs}
        return {name: functools.partial(self._call, run) for name, run in runs.items()}

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Let calls mutate tensors in the block, and restore the tensors afterwards."""
        args, kwargs = self._args, self._kwargs
        self._args, self._kwargs = self._cloned_inputs()
        try:
            with self._undisturbed():
                yield
        finally:
            self._args, self._kwargs = args, kwargs

    def results(self) -> dict[str, Any]:
        """Return the model's results, as "output"."""
        args, kwargs = self._cloned_inputs()
        with self._undisturbed(), plain_calls():
            output = self._model(*args, **kwargs)
            # The output may be a view of a tensor that is restored.
            return {"output": tree_map(_cloned, output) if self._writes else output}

    def _run_model(self) -> tuple[dict[str, Any], bool]:
        """Return the model's results, and whether it drew random numbers."""
        with self._undisturbed():
            return self._outputs(self._model), self._drew()

    def _call(self, run: Run) -> Any:
        if torch.is_autocast_enabled("cpu"):
            # As in separate autocast blocks, each call casts its weights itself.
            torch.clear_autocast_cache()
        with plain_calls():
            return run(*self._args, **self._kwargs)

    def _outputs(self, run: Run) -> dict[str, Any]:
        """Return the results of a call, and the tensors that it mutates, after the call."""
        args, kwargs = self._cloned_inputs()
        with plain_calls():
            result = run(*args, **kwargs)
        if not self._writes:
            return {"output": result}
        # The result may be a view of a tensor that the next call mutates.
        state = {"output": result, "buffers": self._buffers, "inputs": [args, kwargs]}
        cloned: dict[str, Any] = tree_map(_cloned, state)
        return cloned

    def _cloned_inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if self._capture is not None and not self._capture.written:
            return self._args, self._kwargs
        args: tuple[Any, ...] = tree_map(_cloned, self._args)
        kwargs: dict[str, Any] = tree_map(_cloned, self._kwargs)
        return args, kwargs

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        numbers = self._numbers = torch.get_rng_state()
        attributes = (
            AttributeSnapshot(self._model, containers=True) if self._capture is None else None
        )
        before = [each.clone() for each in self._buffers]
        try:
            yield
        finally:
            for buffer, value in zip(self._buffers, before, strict=True):
                buffer.copy_(value)
            if attributes is not None:
                attributes.restore()
            if self._drew():
                torch.set_rng_state(numbers)

    def _drew(self) -> bool:
        return not torch.equal(torch.get_rng_state(), self._numbers)

    def _exact(self, error: float) -> dict[str, Any] | None:
        """Return the model's results with higher precision; None if that cannot be computed.

        In int8, `error` is that of `float64_reference.Reference.result`.
        """
        assert self._capture is not None
        int8 = self._capture.arithmetic == "int8"
        try:
            with torch.autocast("cpu", enabled=False):
                return self._between_quantizers(error) if int8 else self._of_more_digits()
        except Exception as raised:
            _log.logger.info(
                "optimize: no reference of higher precision: %s", _log.first_line(raised)
            )
            return None

    def _of_more_digits(self) -> dict[str, Any]:
        """Return the results of a copy of the model in fp32 or float64."""
        assert self._capture is not None
        fast = _native.load().fastmath_asked()
        single = self._capture.arithmetic == "bf16" and not fast
        dtype = torch.float32 if single else torch.float64

        def cast(leaf: Any) -> Any:
            floats = isinstance(leaf, Tensor) and leaf.is_floating_point()
            return leaf.to(dtype, copy=True) if floats else _cloned(leaf)

        wide = self._wide.get(dtype)
        if wide is None:
            # Without a copy in the model's own dtype beside the one in `dtype`.
            cast_ones: dict[int, Any] = {
                id(each): nn.Parameter(each.detach().to(dtype), requires_grad=False)
                for each in self._model.parameters()
                if type(each) is nn.Parameter and each.dtype in _HALVES
            }
            wide = copy.deepcopy(self._model, cast_ones).to(dtype)
            if not self._writes:
                self._wide[dtype] = wide
        args, kwargs = tree_map(cast, self._args), tree_map(cast, self._kwargs)
        with self._undisturbed(), plain_calls():
            result = wide(*args, **kwargs)
        if not self._writes:
            return {"output": result}
        buffers = dict(wide.named_buffers())
        names = {id(each): name for name, each in self._model.named_buffers()}
        state = tuple(buffers[names[id(each)]] for each in self._buffers)
        return {"output": result, "buffers": state, "inputs": [args, kwargs]}

    def _between_quantizers(self, error: float) -> dict[str, Any] | None:
        """Return the model's results with float64 between its quantizers."""
        from cpuaccel.compile.validate import float64_reference

        if self._writes:
            return None
        with self._undisturbed(), plain_calls():
            if self._reference is None:
                self._reference = float64_reference.Reference(self._model, self._args, self._kwargs)
            return {"output": self._reference.result(error)}


def time_calls(validations: dict[str, Validation], budget: float) -> dict[str, list[float]]:
    """Return the seconds of calls that were timed in turns for about `budget` seconds.

    The keys are "plan" and "model", with the name of the validation as prefix.
    """
    with _all_undisturbed(list(validations.values())):
        calls = {
            prefix + name: call
            for prefix, validation in validations.items()
            for name, call in validation.calls().items()
        }
        return _interleaved_timing.within(calls, budget)


@contextmanager
def _all_undisturbed(validations: list[Validation]) -> Iterator[None]:
    if not validations:
        yield
        return
    with validations[0].undisturbed(), _all_undisturbed(validations[1:]):
        yield


def _failed(error: Exception) -> Difference:
    problem = f"the plan raises {type(error).__name__}: {_log.first_line(error)}"
    return Difference(float("inf"), 0.0, problem=problem)


def _state_of(model: nn.Module) -> tuple[Tensor, ...]:
    """Return the tensors of a model, except parameters, that can be cloned and restored."""
    parameters = {id(each) for each in model.parameters()}
    return tuple(
        each
        for each in tensors_of(model)
        if id(each) not in parameters
        and type(each) is Tensor
        and each.layout is torch.strided
        and each.is_cpu
        and not each.is_inference()
        and not overlaps_itself(each.shape, each.stride())
    )


def _cloned(leaf: Any) -> Any:
    return leaf.detach().clone() if isinstance(leaf, Tensor) else leaf
