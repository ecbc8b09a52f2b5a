"""A model as a graph of torch's ops in which oneDNN's partitions are calls of ours."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.fx import Graph, GraphModule, Node

from cpuaccel import _native
from cpuaccel.graph import choice, converted, regions, report, rewriting, torch_program
from cpuaccel.quant import lower

_aten: Any = torch.ops.aten

# Ops of torch that are others underneath: those are what oneDNN's are made from.
_TAKEN_APART = (
    _aten.conv1d.default,
    _aten.conv2d.default,
    _aten.conv2d.padding,
    _aten.conv3d.default,
    _aten.conv_transpose2d.input,
    _aten.linear.default,
    _aten.matmul.default,
    _aten.layer_norm.default,
    _aten.adaptive_avg_pool2d.default,
    _aten.max_pool2d.default,
    _aten.scaled_dot_product_attention.default,
)


def graph_of(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], against_eager: bool = True
) -> tuple[GraphModule, report.Report]:
    """Return what `model` does with these arguments, on its own weights, and what became of it.

    Partitions are taken where they win: against torch's ops one by one, or else against Inductor.
    """
    if converted.is_converted(model):
        model = lower(model)
    table = torch.export.default_decompositions()
    table_of: Any = {op: table[op] for op in _TAKEN_APART if op in table}
    with torch.no_grad():
        exported = torch.export.export(model, args, kwargs, strict=False)
        captured: Any = exported.run_decompositions(table_of).module(check_guards=False)
    graph = captured.graph
    if not against_eager and not hasattr(_native.load(), "find_partitions"):
        return captured, report.Report(report.current_compile_id(), (), ())
    with choice.against_eager() if against_eager else nullcontext():
        found = regions.cut(graph, weights_of(graph))
    made = report.describe(found)
    rewriting.put_regions(graph, found.regions)
    _views_of_numbers(graph)
    graph.eliminate_dead_code()
    captured.recompile()
    return captured, made


def weights_of(graph: Graph) -> set[Node]:
    """Return what a graph of `graph_of` holds and does not write to."""
    written = {node.args[0] for node in graph.nodes if node.target is _aten.copy_.default}
    return {node for node in graph.find_nodes(op="get_attr") if node not in written}


def _views_of_numbers(graph: Graph) -> None:
    """Let views copy: what a region returns may lie in another way than what it stands for."""
    for node in graph.nodes:
        if node.target in torch_program.VIEWS:
            node.target = _aten.reshape.default
