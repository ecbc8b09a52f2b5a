"""Picks the faster of a quantized model and its float original on this CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from cpuaccel import _log, config
from cpuaccel.compile.capture import input_signature
from cpuaccel.compile.frontend.optimized_module import Optimized
from cpuaccel.compile.validate import validation
from cpuaccel.compile.validate.comparison import total_distance
from cpuaccel.compile.validate.verdict import FP32, MODEL, PLAN, is_slower, medians_of

Samples = Mapping[str, Sequence[float]]


def faster_of(
    model: nn.Module,
    fp32: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    time_budget: float,
    sizes_budget: float,
) -> Optimized:
    """Return `model`, or `fp32` if `model` is slower; it runs as its plan if the plan is faster.

    Raises:
        ValueError: one of them does not run on these inputs, or their results differ in structure.
    """
    # Each plan is compared with its own model, and is not timed here.
    quantized = started("model", model, args, kwargs, 0.0, sizes_budget)
    original = started("fp32", fp32, args, kwargs, 0.0, sizes_budget)
    with torch.no_grad():
        validations = {
            prefix: validation.Validation(each.model, each.capture_for(args, kwargs), args, kwargs)
            for prefix, each in (("", quantized), (FP32, original))
        }
        distance = _distance(validations)
        untimed = "CPUACCEL_DETERMINISTIC" if config.get("deterministic") else ""
        if not time_budget:
            untimed = "time_budget is 0"
        samples: Samples = {} if untimed else validation.time_calls(validations, time_budget)
    for each in (quantized, original):
        each.time_budget = time_budget
    if untimed:
        _settle(quantized, "", f"neither model was timed: {untimed}", {}, distance)
        return quantized
    mine, other = _best("", samples), _best(FP32, samples)
    what = quantized.verdict.arithmetic if quantized.verdict is not None else ""
    what = what or "the model"
    if is_slower(samples[mine], samples[other]):
        _settle(original, FP32, f"{what} is slower than fp32", samples, distance)
        _log.logger.warning("optimize: %s", original.verdict)
        return original
    _settle(quantized, "", f"{what} is not slower than fp32", samples, distance)
    _log.logger.info("optimize: %s", quantized.verdict)
    return quantized


def _best(prefix: str, samples: Samples) -> str:
    """Return the name of a model's plan, or of the model if it is faster or there is no plan."""
    plan, model = prefix + PLAN, prefix + MODEL
    if plan not in samples or is_slower(samples[plan], samples[model]):
        return model
    return plan


def _settle(
    chosen: Optimized, prefix: str, reason: str, samples: Samples, distance: float | None
) -> None:
    """Let `chosen` run its model or plan, whichever is faster, and record the verdict."""
    verdict = chosen.verdict
    assert verdict is not None
    runs = _best(prefix, samples) if samples else verdict.runs
    chosen.settle(
        replace(verdict, runs=runs, reason=reason, seconds=medians_of(samples), distance=distance),
        is_slower=runs == prefix + MODEL and prefix + PLAN in samples,
    )


def _distance(validations: Mapping[str, validation.Validation]) -> float:
    try:
        return total_distance(validations[""].results(), validations[FP32].results())
    except ValueError as error:
        raise ValueError(
            f"cpuaccel.optimize: fp32: expected a model with the same outputs as `model`,"
            f" but {error}"
        ) from None


def started(
    name: str,
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    time_budget: float,
    sizes_budget: float,
) -> Optimized:
    """Return `model`, the argument `name` of optimize, with a plan for these inputs.

    Raises:
        ValueError: it does not run on these inputs.
    """
    optimized = Optimized(model, time_budget, sizes_budget)
    try:
        with torch.no_grad():
            optimized.capture_for(args, kwargs)
    except Exception as error:
        raise ValueError(
            f"cpuaccel.optimize: example_inputs: {name} raises {type(error).__name__} for "
            f"{input_signature.describe(args, kwargs)}: {_log.first_line(error)}"
        ) from error
    return optimized
