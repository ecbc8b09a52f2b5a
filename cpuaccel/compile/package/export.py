"""Exports captured graphs as torch.export programs, with the facts that a file has of them."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule

from cpuaccel import _native
from cpuaccel._ops import kept_linear, prepack, saved_linear  # noqa: F401  fake kernels
from cpuaccel._version import __version__
from cpuaccel.compile.bridge import region_op as _region_op  # noqa: F401  fake kernels
from cpuaccel.compile.capture import symbolic_sizes, torch_export
from cpuaccel.compile.capture.call_signature import Call
from cpuaccel.compile.capture.dynamic_shapes import DynamicSizes
from cpuaccel.compile.common import report
from cpuaccel.compile.package.outline import outline
from cpuaccel.compile.package.schemas import schema_of
from cpuaccel.compile.passes.aliasing import mutated_by

_NAMESPACE = "cpuaccel::"


def exported(
    captured: GraphModule, call: Call, sizes: DynamicSizes | None = None
) -> ExportedProgram:
    """Return the torch.export program of `captured` for such a call, without unread weights.

    With `sizes`, the program takes calls of these sizes, of which `call` is an example.
    """
    _remove_unread_weights(captured)
    args, kwargs = call.example()
    dynamic = () if sizes is None else sizes.dimensions()
    # The casts of autocast are in the graph.
    with torch.autocast("cpu", enabled=False):
        program = torch_export.exported(captured, args, kwargs, dynamic)
    program.example_inputs = None  # they would be pickled into the file
    return program


def facts_of(
    program: ExportedProgram,
    call: Call,
    made: report.Report,
    sizes: DynamicSizes | None = None,
) -> dict[str, Any]:
    """Return the facts of a file with `program`, which runs such calls, or calls of these `sizes`.

    Raises:
        ValueError: an argument cannot be written to a file, or a dynamic size became a number in
            `program`.
    """
    native = _native.load()
    return {
        "cpuaccel": __version__,
        "torch": str(torch.__version__),
        "cpu": {
            "machine": platform.machine(),
            "vendor": native.cpu_vendor(),
            "isa": native.isa(),
            "features": sorted(native.cpu_features()),
        },
        "call": call.facts(),
        "sizes": [] if sizes is None else [each.facts() for each in _all_sizes(program, sizes)],
        "written": _written_inputs(program),
        "ops": {name: schema_of(name) for name in sorted(_cpuaccel_ops(program.graph))},
        "report": asdict(made),
        "outline": outline(program),
    }


def _all_sizes(program: ExportedProgram, sizes: DynamicSizes) -> list[DynamicSizes]:
    """Return `sizes`, and the sizes that `program` was traced under: a call has to match both."""
    by_name = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    inputs = [by_name[name] for name in program.graph_signature.user_inputs]
    traced = symbolic_sizes.sizes_of(inputs, program.range_constraints)
    fixed = sizes.dimensions() - (set() if traced is None else traced.dimensions())
    if traced is None or fixed:
        leaf, dim = min(fixed)
        raise ValueError(f"argument {leaf}, dimension {dim}: torch.export specialized its size")
    return [sizes, traced.from_zero()]


def _written_inputs(program: ExportedProgram) -> list[int]:
    """Return the arguments that the program mutates, as numbers of leaves."""
    written = {node.name for node in mutated_by(program.graph)}
    return [
        number for number, name in enumerate(program.graph_signature.user_inputs) if name in written
    ]


def _cpuaccel_ops(graph: Graph) -> Iterable[str]:
    names = {
        node.target._schema.name
        for node in graph.nodes
        if node.op == "call_function" and hasattr(node.target, "_schema")
    }
    return (name for name in names if name.startswith(_NAMESPACE))


def _remove_unread_weights(captured: GraphModule) -> None:
    """Remove weights that no node reads: a packed weight is not to be saved twice."""
    read = {str(node.target) for node in captured.graph.find_nodes(op="get_attr")}
    names = [name for name, _ in captured.named_parameters(remove_duplicate=False)]
    names += [name for name, _ in captured.named_buffers(remove_duplicate=False)]
    for name in names:
        if name not in read:
            owner, _, attribute = name.rpartition(".")
            delattr(captured.get_submodule(owner), attribute)
