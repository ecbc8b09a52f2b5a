"""Captures for files with `dynamic_shapes`, compared with the model at several sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from cpuaccel import _log
from cpuaccel.compile.capture.call_signature import Call
from cpuaccel.compile.capture.capture import Capture, capture
from cpuaccel.compile.capture.dynamic_shapes import shapes_of
from cpuaccel.compile.capture.torch_export import DynamicShapes
from cpuaccel.compile.validate import validation

_WHERE = "cpuaccel.save: dynamic_shapes"


def capture_dynamic(model: nn.Module, call: Call, dynamic_shapes: Any) -> Capture:
    """Return `model` captured for calls with the signature of `call`, but sizes that vary.

    Raises:
        ValueError: torch.export cannot make them vary, or the results are off at some size.
    """
    args, kwargs = call.random()
    try:
        with _autocast_of(call):
            made = capture(model, args, kwargs, DynamicShapes(dynamic_shapes))
    except Exception as error:
        raise ValueError(f"{_WHERE}: {_log.first_line(error)}") from error
    if made.sizes is None:
        raise ValueError(
            f"{_WHERE}: expected a size that varies, got {dynamic_shapes!r}: the model"
            f" specializes all sizes of {call}"
        )
    _compare(model, made, call)
    for other in made.sizes.other_calls(call):
        if not _has_ones(other, call):
            _compare(model, made, other)
        elif not _agrees_at(model, made, other):
            made = replace(made, sizes=made.sizes.from_two())
    return made


def _compare(model: nn.Module, made: Capture, call: Call) -> None:
    with torch.no_grad(), _autocast_of(call):
        difference, remark = validation.Validation(model, made, *call.random()).difference()
    if not difference.is_within:
        behind = f" ({remark})" if remark else ""
        raise ValueError(
            f"{_WHERE}: the results for {call} exceed the error bound: {difference}{behind}"
        )


def _agrees_at(model: nn.Module, made: Capture, call: Call) -> bool:
    """Say whether sizes of 1 are right too: torch.export allows them without tracing them."""
    try:
        _compare(model, made, call)
    except Exception as error:
        _log.logger.info("save: the file rejects sizes of 1: %s", _log.first_line(error))
        return False
    return True


def _has_ones(call: Call, traced: Call) -> bool:
    pairs = zip(shapes_of(call), shapes_of(traced), strict=True)
    return any(
        size == 1 and other != 1
        for sizes, others in pairs
        for size, other in zip(sizes or (), others or (), strict=True)
    )


def _autocast_of(call: Call) -> torch.autocast:
    if call.autocast is None:
        return torch.autocast("cpu", enabled=False)
    return torch.autocast("cpu", dtype=call.autocast)
