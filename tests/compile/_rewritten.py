"""Runs models through the pass alone, without Inductor, which takes a hundred times as long."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch._dispatch.python import enable_python_dispatcher
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves

from cpuaccel.compile.common import report
from cpuaccel.compile.partition import insertion, region_report, regions
from cpuaccel.compile.passes import decompositions

_aten: Any = torch.ops.aten


def rewritten(
    model: nn.Module, inputs: list[Tensor]
) -> tuple[GraphModule, list[Tensor], report.Report]:
    """Return the graph that Inductor gets, the weights to call it with, and the report."""
    weights = dict(model.named_parameters()) | dict(model.named_buffers())

    def call(held: list[Tensor], *given: Tensor) -> Any:
        named = dict(zip(weights, held, strict=True))
        return torch.func.functional_call(model, named, given)

    held = [each.detach() for each in weights.values()]
    with enable_python_dispatcher():  # as where Inductor makes its graphs
        traced = make_fx(
            call, decomposition_table=decompositions.without_preserved(), tracing_mode="fake"
        )(held, *inputs)
    graph = traced.graph
    graph.eliminate_dead_code()
    constants = set(graph.find_nodes(op="placeholder")[: len(held)])
    found = regions.find_regions(graph, constants)
    made = region_report.report_of(found)
    insertion.put_regions(graph, found.regions)
    insertion.decompose_preserved(graph)
    for view in graph.find_nodes(op="call_function", target=_aten.view.default):
        view.target = _aten.reshape.default  # Inductor's views need not share memory
    graph.lint()
    traced.recompile()
    return traced, held, made


# The norm of the error may exceed four times eager's own error by this much.
_ALLOWED = {torch.float32: 2e-5, torch.bfloat16: 0.03}


def agree(found: Any, model: nn.Module, inputs: list[Tensor]) -> None:
    """Compare results with exact ones: their error must be similar to eager's."""
    eager = model(*inputs)
    exact = copy.deepcopy(model).double()(*(each.double() for each in inputs))
    for ours, theirs, right in zip(*map(tree_leaves, (found, eager, exact)), strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        error, eagers = (float((each.double() - right).norm()) for each in (ours, theirs))
        allowed = 4 * eagers + _ALLOWED[ours.dtype] * float(right.norm())
        assert error <= allowed, str(model)


def check(model: nn.Module, *inputs: Tensor, autocast: bool = False) -> report.Report:
    """Run the rewritten model twice, compare with eager mode, and return the report."""
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        module, held, made = rewritten(model.eval(), list(inputs))
        for _ in range(2):
            agree(module(held, *inputs), model, list(inputs))
    return made


def check_steps(model: nn.Module, expected: Any, *inputs: Tensor) -> report.Report:
    """Run a rewritten quantized model, compare with `expected`, and return the report.

    A value of 8 bits may be rounded to the next one.
    """
    with torch.no_grad():
        module, held, made = rewritten(model.eval(), list(inputs))
        found = module(held, *inputs)
    for ours, right in zip(tree_leaves(found), tree_leaves(expected), strict=True):
        step = (right.max() - right.min()).item() / 100
        torch.testing.assert_close(ours, right, atol=step, rtol=0)
    return made
