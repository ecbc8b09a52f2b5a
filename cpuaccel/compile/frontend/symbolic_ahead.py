"""Makes a capture of symbolic sizes along with the first one, so that no later call waits.

The caller does not say which sizes will vary. So all sizes that may vary are symbols: each size of
2 or more, and a batch of 1, which is traced as a batch of 2, because torch specializes sizes of 1.
Sizes that the model specializes, such as channels, stay numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from cpuaccel import _log
from cpuaccel.compile.bridge.plan_text import PlanText, parse
from cpuaccel.compile.capture.call_signature import Call, TensorSignature
from cpuaccel.compile.capture.capture import Capture, capture, with_plan_texts
from cpuaccel.compile.capture.dynamic_shapes import shapes_of
from cpuaccel.compile.capture.memory_overlap import span
from cpuaccel.compile.capture.torch_export import time_limit
from cpuaccel.compile.frontend.symbolic_captures import SymbolicTrace
from cpuaccel.compile.validate import validation
from cpuaccel.compile.validate.comparison import Difference


def capture_symbolic(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], seconds: float
) -> Capture | None:
    """Return `model` captured for all sizes of such calls, including this call; None if that fails.

    Raises:
        TimeoutError: a trace takes more than `seconds` of thread time: for some models, torch
            solves equations of sizes.
    """
    call = Call.of(args, kwargs)
    for traced in _to_trace(call):
        try:
            with time_limit(seconds):
                inputs = traced.example.example()
                made = capture(model, *inputs, traced.dynamic, call, registers_report=False)
        except TimeoutError:
            raise
        except Exception as error:
            _log.logger.info("optimize: no capture of symbolic sizes: %s", _log.first_line(error))
            continue
        if made.sizes is None or made.writes or not any(made.report.regions):
            continue
        sizes = made.sizes.with_ones_of(call)
        if not sizes.mismatch(shapes_of(call)):
            return replace(made, sizes=sizes)
    return None


def _to_trace(call: Call) -> list[SymbolicTrace]:
    """Return what to trace, one after the other, until a capture accepts the sizes of `call`."""
    found = []
    for example in dict.fromkeys((_with_two_rows(call), call)):
        dynamic = frozenset(
            (leaf, dim)
            for leaf, shape in enumerate(shapes_of(example))
            for dim, size in enumerate(shape or ())
            if size > 1
        )
        if dynamic:
            found.append(SymbolicTrace(example, dynamic))
    return found


def _with_two_rows(call: Call) -> Call:
    """Return `call` with a batch of 2 if the first size of every tensor is 1; else `call`."""
    tensors = [each for each in call.leaves if isinstance(each, TensorSignature) and each.shape]
    if not tensors or any(each.shape[0] != 1 for each in tensors):
        return call
    leaves = tuple(
        each._replace(
            shape=(2, *each.shape[1:]),
            stride=(span(each.shape[1:], each.stride[1:]), *each.stride[1:]),
        )
        if isinstance(each, TensorSignature) and each.shape
        else each
        for each in call.leaves
    )
    return replace(call, leaves=leaves)


@dataclass(frozen=True)
class SymbolicValidation:
    """The outcome of comparing a capture of symbolic sizes with the model."""

    difference: Difference
    """For the call that it was made with."""
    at_other_sizes: bool
    """Whether it was also right for a call of nearby sizes, with random inputs."""


def validate(model: nn.Module, made: Capture, args: Any, kwargs: Any) -> SymbolicValidation:
    """Compare a capture with the model for this call, and for a call of nearby sizes."""
    tried = validation.Validation(model, made, args, kwargs)
    with torch.no_grad():
        difference, _ = tried.difference()
        is_right = difference.is_within and is_right_nearby(tried, made, args, kwargs)
    return SymbolicValidation(difference, is_right)


def is_right_nearby(tried: validation.Validation, made: Capture, args: Any, kwargs: Any) -> bool:
    """Say whether a capture is right for a call of nearby sizes, with random inputs."""
    assert made.sizes is not None
    nearby = made.sizes.nearby(Call.of(args, kwargs))
    if nearby is None:
        return False
    try:
        difference, _ = tried.at(*nearby.random()).difference()
    except Exception as error:  # the model does not accept random inputs
        _log.logger.info("optimize: not validated at other sizes: %s", _log.first_line(error))
        return False
    return difference.is_within


def with_shared_texts(made: Capture, symbolic: Capture, args: Any, kwargs: Any) -> Capture | None:
    """Return `made`, of fixed sizes, with the region texts of `symbolic`.

    None if they differ in more than sizes. Weights that are packed for a region text serve all
    sizes that it runs for; two texts would each pack their own.
    """
    mine, others = made.plan_texts(), symbolic.plan_texts()
    if len(mine) != len(others) or made.constants() != symbolic.constants():
        return None
    pairs = zip(mine, others, strict=True)
    if not all(_without_sizes(parse(a)) == _without_sizes(parse(b)) for a, b in pairs):
        return None
    return with_plan_texts(made, others, args, kwargs)


_OF_SIZES = {"view": ("axis", "dims"), "AvgPool": ("kernel", "strides")}
"""Attributes that tell how to find dynamic sizes, by kind of op."""


def _without_sizes(text: PlanText) -> Any:
    def plain(op: Any) -> Any:
        left_out = _OF_SIZES.get(op.kind, ())
        attributes = {name: each for name, each in op.attributes.items() if name not in left_out}
        return op.kind, op.inputs, op.outputs, attributes

    return (
        {number: (each.dtype, len(each.sizes)) for number, each in text.values.items()},
        text.inputs,
        text.constants,
        text.outputs,
        [plain(op) for op in text.preparations],
        [[plain(op) for op in part] for part in text.partitions],
    )
