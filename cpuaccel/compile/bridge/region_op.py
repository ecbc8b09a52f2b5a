"""Registers cpuaccel::graph_region and graph_region_ with torch.

This includes their fake kernels, cpuaccel::graph_region_by_torch, which runs torch's ops instead,
and the functionalization of graph_region_, which mutates its inputs, to graph_region.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cpuaccel import _native
from cpuaccel.compile.bridge import torch_fallback

_torch: Any = torch  # Any: torch's annotations lack names that are used here


def _graph_region(
    inputs: list[Tensor], constants: list[Tensor], program: str, torch_text: str
) -> list[Tensor]:
    return torch_fallback.run(inputs, constants, torch_text)


def _in_place(
    written: list[Tensor],
    inputs: list[Tensor],
    constants: list[Tensor],
    program: str,
    torch_text: str,
) -> list[Tensor]:
    results = torch_fallback.run([*written, *inputs], constants, torch_text)
    return results[: len(results) - len(written)]


def _functional(
    context: Any,
    written: list[Tensor],
    inputs: list[Tensor],
    constants: list[Tensor],
    program: str,
    torch_text: str,
) -> Any:
    """Call graph_region and copy its results to `written`.

    So a graph that is traced and saved mutates its inputs only at its end.
    """
    given, weights = context.unwrap_tensors(([*written, *inputs], constants))
    with context.redispatch_to_next():
        op = _torch.ops.cpuaccel.graph_region.default
        results = op(given, weights, program, torch_text)
    fresh = len(results) - len(written)
    for tensor, value in zip(written, results[fresh:], strict=True):
        context.replace(tensor, value)
        context.commit_update(tensor)
        context.sync(tensor)
    return context.wrap_tensors(results[:fresh])


def _by_torch(inputs: list[Tensor], constants: list[Tensor], torch_text: str) -> list[Tensor]:
    return torch_fallback.run(inputs, constants, torch_text)


if hasattr(_native.load(), "find_partitions"):  # built with oneDNN: the ops exist
    _torch.library.register_fake("cpuaccel::graph_region")(_graph_region)
    _torch.library.register_fake("cpuaccel::graph_region_")(_in_place)
    _torch.ops.cpuaccel.graph_region_.default.py_functionalize_impl(_functional)
    # It is composed of torch's ops, which have all derivatives and batching rules.
    for key in ("CPU", "Autograd", "FuncTorchBatched"):
        _torch.library.impl("cpuaccel::graph_region_by_torch", key)(_by_torch)
