"""Captured graphs as programs of torch.export, and what has to be known of them where they run."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node

import cpuaccel
from cpuaccel import _native
from cpuaccel._ops import kept_linear, prepack, region, saved_linear  # noqa: F401  fake kernels
from cpuaccel.graph import report
from cpuaccel.graph.calls import Call
from cpuaccel.graph.outline import outline
from cpuaccel.graph.schemas import schema_of

_OURS = "cpuaccel::"


def exported(captured: GraphModule, call: Call) -> ExportedProgram:
    """Return what `captured` does with such a call, and of its weights those that it reads."""
    _forget_unread(captured)
    args, kwargs = call.example()
    # What autocast casts is cast in the graph.
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        program = torch.export.export(captured, args, kwargs, strict=False)
    program.example_inputs = None  # which would be kept in the file, pickled
    return program


def facts_of(program: ExportedProgram, call: Call, made: report.Report) -> dict[str, Any]:
    """Return what a file says of `program`, which runs such calls."""
    native = _native.load()
    return {
        "cpuaccel": cpuaccel.__version__,
        "torch": str(torch.__version__),
        "cpu": {
            "machine": platform.machine(),
            "vendor": native.cpu_vendor(),
            "isa": native.isa(),
            "features": sorted(native.cpu_features()),
        },
        "call": call.facts(),
        "ops": {name: schema_of(name) for name in sorted(_our_ops(program.graph))},
        "report": asdict(made),
        "outline": outline(program),
    }


def _our_ops(graph: Graph) -> Iterable[str]:
    names = {
        node.target._schema.name
        for node in graph.nodes
        if node.op == "call_function" and hasattr(node.target, "_schema")
    }
    return (name for name in names if name.startswith(_OURS))


def _forget_unread(captured: GraphModule) -> None:
    """Take out weights that no node reads: what is packed is not to be saved twice."""
    read = {str(node.target) for node in captured.graph.find_nodes(op="get_attr")}
    held = [name for name, _ in captured.named_parameters(remove_duplicate=False)]
    held += [name for name, _ in captured.named_buffers(remove_duplicate=False)]
    for name in held:
        if name not in read:
            owner, _, attribute = name.rpartition(".")
            delattr(captured.get_submodule(owner), attribute)


def weight_of(captured: GraphModule, node: Node) -> torch.Tensor:
    """Return the tensor that a get_attr node reads."""
    owner, _, attribute = str(node.target).rpartition(".")
    found: torch.Tensor = getattr(captured.get_submodule(owner), attribute)
    return found
