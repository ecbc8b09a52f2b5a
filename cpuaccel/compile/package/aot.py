"""`cpuaccel.aot_compile`: compiles a model ahead of time with AOTInductor and cpuaccel's ops.

Code that AOTInductor compiles calls torch's kernels directly, not through the dispatcher, so that
cpuaccel cannot override them there. Therefore cpuaccel's ops are put into the graph before
AOTInductor sees it: regions for oneDNN, and linear layers on weights that are packed in the file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node

from cpuaccel import _engine_state
from cpuaccel._arguments import checked_inputs
from cpuaccel._files import written
from cpuaccel._prepack import matrix
from cpuaccel.compile.capture import capture, torch_export, training_mode
from cpuaccel.compile.capture.call_signature import Call
from cpuaccel.compile.common import report
from cpuaccel.compile.package import archive, export
from cpuaccel.compile.package.load import PACKAGE
from cpuaccel.compile.package.save import checked_path
from cpuaccel.compile.partition import cost
from cpuaccel.compile.passes import packed_linears
from cpuaccel.compile.passes.aliasing import attribute_of

_PACKED = "packed in the file: AOTInductor calls torch's products without the dispatcher"


def aot_compile(
    model: nn.Module,
    example_inputs: Any,
    path: str | os.PathLike[str],
    *,
    freeze: bool = True,
    dynamic_shapes: Any = None,
    inductor_configs: dict[str, Any] | None = None,
) -> None:
    """Compile `model` ahead of time into a `.pt2` package, for calls like the example.

    With `dynamic_shapes`, calls may differ from the example in those sizes.

    `cpuaccel.load` runs the package, and so does a C++ program (examples/aoti_cpp). The package
    calls cpuaccel for oneDNN's partitions. For linear layers outside of them, fp32 weights that no
    other op reads are packed in the file. Needs a C++ compiler, as AOTInductor does.

    Args:
        model: any module that torch.export can trace, in eval mode; also one from convert_fx.
        example_inputs: a tuple of the positional arguments of a call.
        path: the file to write; ends in .pt2. An existing file is replaced atomically.
        freeze: make the weights constants, which are folded and packed; they cannot be changed in
            the package then.
        dynamic_shapes: the sizes that may vary, in torch.export's format, such as
            `({0: torch.export.Dim("batch", max=64)},)`; in the example they are 2 or more. The
            package rejects sizes that are out of range.
        inductor_configs: additional options for Inductor.

    Raises:
        TypeError: `model` is not a module, or `example_inputs` is not a tuple or list.
        ValueError: `model` is in training mode; `path` does not end in .pt2; an argument is neither
            a tensor nor a number, string, boolean or None.
        RuntimeError: cpuaccel is off; or torch.export or AOTInductor cannot compile the model.
    """
    target = _check(model, path)
    args = checked_inputs("cpuaccel.aot_compile", example_inputs)
    call = Call.of(args, {})
    dynamic = () if dynamic_shapes is None else torch_export.DynamicShapes(dynamic_shapes)
    with cost.for_packages():
        captured, made, sizes = capture.graph_of(model, args, {}, dynamic, against_eager=False)
    packed = _pack_linears(captured) if freeze else ()
    made = report.Report(made.compile_id, (*made.regions, *packed), made.left)
    program = export.exported(captured, call, sizes)
    program.example_inputs = call.example()  # what AOTInductor compiles for
    try:
        facts = export.facts_of(program, call, made, sizes)
    except ValueError as error:
        raise ValueError(f"cpuaccel.aot_compile: {error}") from error
    report.register(made)
    with written(target) as partial:
        _compile(program, partial, freeze, facts, inductor_configs or {})
        archive.seal(partial, {"kind": PACKAGE, **facts})


def _check(model: Any, path: str | os.PathLike[str]) -> Path:
    name = "cpuaccel.aot_compile"
    if not isinstance(model, nn.Module):
        raise TypeError(f"{name}: model: expected a torch.nn.Module, got {type(model).__name__}")
    if training_mode.in_training(model):
        raise ValueError(
            f"{name}: model: expected a model in eval mode (call model.eval()), got one in training"
            " mode"
        )
    if not _engine_state.is_enabled():
        raise RuntimeError(f"{name}: cpuaccel is off: {_engine_state.why_off()}")
    return checked_path(name, path)


def _compile(
    program: Any, path: Path, freeze: bool, facts: dict[str, Any], configs: dict[str, Any]
) -> None:
    from cpuaccel._compat import aoti_compile_and_package

    said = {  # a C++ program can read it from the package
        "cpuaccel": facts["cpuaccel"],
        "cpuaccel_isa": facts["cpu"]["isa"],
        "cpuaccel_torch": facts["torch"],
    }
    metadata = {**configs.get("aot_inductor.metadata", {}), **said}
    options = {"freezing": freeze, **configs, "aot_inductor.metadata": metadata}
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        aoti_compile_and_package(program, package_path=str(path), inductor_configs=options)


def _pack_linears(captured: GraphModule) -> tuple[tuple[report.Partition, ...], ...]:
    """Replace weights of linear layers by packed weights, and return these layers."""
    graph = captured.graph
    suited = {node for node in capture.weights_of(graph) if _suits(captured, node)}
    made = packed_linears.rewrite(graph, suited, _PACKED)
    packed: dict[str, str] = {}
    for node in list(graph.nodes):
        if node.target is torch.ops.cpuaccel.kept_linear.default:
            _put(captured, node, packed)
    graph.eliminate_dead_code()
    captured.recompile()
    return made.regions


def _suits(captured: GraphModule, node: Node) -> bool:
    """Say whether to pack a weight: one that other ops read too would be in the file twice."""
    weight = attribute_of(captured, node)
    if weight.dim() != 2 or not weight.numel() or not _for_products_alone(captured.graph, node):
        return False
    parameter = nn.Parameter(weight.detach(), requires_grad=False)
    return not matrix.Matrix((weight.shape[0],)).unpackable_reason(parameter)


def _for_products_alone(graph: Graph, node: Node) -> bool:
    same = [each for each in graph.find_nodes(op="get_attr") if each.target == node.target]
    users = [user for each in same for user in each.users]
    return bool(users) and all(_is_product_by(user) for user in users)


def _is_product_by(transposed: Node) -> bool:
    return all(
        packed_linears.product_of(user) is not None and user.args[-1] is transposed
        for user in transposed.users
    ) and bool(transposed.users)


def _put(captured: GraphModule, node: Node, packed: dict[str, str]) -> None:
    """`packed` maps the names of plain weights to those of their packed weights."""
    source, weight_node, bias, function = node.args
    assert isinstance(weight_node, Node)
    plain = str(weight_node.target)
    weight = attribute_of(captured, weight_node)
    if plain not in packed:
        packed[plain] = f"cpuaccel_packed_{len(packed)}"
        captured.register_buffer(packed[plain], _bytes_of(weight))
    graph = captured.graph
    with graph.inserting_before(node):
        bytes_node = graph.get_attr(packed[plain])
        op = torch.ops.cpuaccel.saved_linear.default
        call = graph.call_function(op, (source, bytes_node, *weight.shape, bias, function))
    call.meta["val"] = node.meta["val"]
    node.replace_all_uses_with(call)
    graph.erase_node(node)


def _bytes_of(weight: Tensor) -> Tensor:
    panel = matrix.panel_for(weight.dtype, (weight.shape[0],))
    with torch.inference_mode(False), torch.no_grad():
        packed: Tensor = torch.ops.cpuaccel.weight_to_bytes.default(weight.detach(), panel)
    return packed
