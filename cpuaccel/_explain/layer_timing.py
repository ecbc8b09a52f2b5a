"""Times linear layers with packed weights in calls of a model, beside the machine's peaks."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from cpuaccel import _native
from cpuaccel._explain.explanation import Row
from cpuaccel._explain.step_timing import Peaks, repeat

_TYPES = {"gemm_wq": "f32", "qgemm_wq": "s8"}
"""The type that each kernel family of such layers multiplies in."""


@dataclass
class _Calls:
    """What one layer did."""

    seconds: list[float] = field(default_factory=list)
    multiply_adds: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


def timed_rows(model: nn.Module, args: tuple[Any, ...], rows: Sequence[Row]) -> list[Row]:
    """Return `rows`, with times for layers with weights by groups that calls of `model` run.

    The model has been called before, so that the weights are packed.
    """
    calls = {row.layer: _Calls() for row in rows if row.packed_bytes and row.kernel in _TYPES}
    if not calls:
        return list(rows)
    modules = dict(model.named_modules())
    with torch.no_grad(), ExitStack() as stack:
        for layer, of_layer in calls.items():
            stack.enter_context(_recorded(modules[layer], of_layer))
        repeat(lambda: model(*args))
    peaks = Peaks(_native.load())
    return [_timed(row, calls.get(row.layer, _Calls()), peaks) for row in rows]


@contextmanager
def _recorded(module: nn.Module, calls: _Calls) -> Iterator[None]:
    """Record the calls of `module`."""
    began: list[float] = []

    def begin(_module: nn.Module, _args: Any) -> None:
        began.append(time.perf_counter())

    def end(_module: nn.Module, args: Any, result: Tensor) -> None:
        calls.seconds.append(time.perf_counter() - began.pop())
        src = args[0]
        calls.multiply_adds = result.numel() * src.shape[-1]
        calls.bytes_read, calls.bytes_written = src.nbytes, result.nbytes

    hooks = (module.register_forward_pre_hook(begin), module.register_forward_hook(end))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _timed(row: Row, calls: _Calls, peaks: Peaks) -> Row:
    if not calls.seconds:
        return row
    seconds = statistics.median(calls.seconds)
    step: dict[str, Any] = {
        "dtype": _TYPES[row.kernel],
        "multiply_adds": calls.multiply_adds,
        "bytes_read": calls.bytes_read + row.packed_bytes,
        "bytes_written": calls.bytes_written,
    }
    return replace(
        row,
        microseconds=seconds * 1e6,
        gigabytes=(step["bytes_read"] + step["bytes_written"]) / seconds / 1e9,
        of_bound=peaks.seconds(step) / seconds,
    )
