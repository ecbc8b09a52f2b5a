"""A capture as JSON values, without the weights, which are named by their places in the model."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule

from cpuaccel._compat import (
    PyTreeCodeGen,
    PyTreeInfo,
    is_traceable_wrapper_subclass,
    treespec_dumps,
    treespec_loads,
)
from cpuaccel.compile.bridge import op_json
from cpuaccel.compile.bridge.plan_text import check_digest
from cpuaccel.compile.bridge.translation import Fallback
from cpuaccel.compile.capture.call_signature import Call
from cpuaccel.compile.capture.capture import Capture
from cpuaccel.compile.capture.dynamic_shapes import DynamicSizes
from cpuaccel.compile.capture.graph_runner import is_region, runner
from cpuaccel.compile.common import torch_names
from cpuaccel.compile.common.report import Report
from cpuaccel.compile.passes.aliasing import attribute_of
from cpuaccel.compile.passes.constant_folding import FOLDED

_MOST_FOLDED = 1 << 16
"""Most bytes of tensors that are written out: those that depend on numbers only."""

Place = list[str]
"""The name of a tensor in a model, and the names of its parts in tensors of tensors."""


def encode(made: Capture, model: nn.Module) -> dict[str, Any]:
    """Return `made`, a capture of `model`, as JSON values.

    Raises:
        ValueError: it cannot be written: it mutates something, or holds a tensor that is none of
            the model's.
    """
    if made.writes:
        raise ValueError("it mutates weights or inputs")
    places = {_memory_of(tensor): place for place, tensor in _tensors_of(model)}
    info = made.graph.graph._codegen.pytree_info  # type: ignore[attr-defined]
    writer = op_json.Writer()
    values: list[Any] = []
    outputs: Any = None
    try:
        for node in made.graph.graph.nodes:
            if node.op == "output":
                outputs = writer.written(node.args[0])
            elif node.op == "placeholder":
                writer.add_value(node)
                values.append(None)
            elif node.op == "get_attr":
                writer.add_value(node)
                held = attribute_of(made.graph, node)
                values.append(_held(str(node.target), held, places))
            elif node.op == "call_function" and op_json.is_named(node.target):
                values.append([op_json.name_of(node.target), *writer.arguments(node)])
                writer.add_value(node)
            else:
                raise ValueError(f"it has a node {node.op} {node.target}")
        trees = treespec_dumps(info.in_spec), treespec_dumps(info.out_spec)
    except (Fallback, KeyError, NotImplementedError) as error:
        raise ValueError(f"a node cannot be written: {error}") from error
    return {
        "values": values,
        "outputs": outputs,
        "names": list(info.orig_args),
        "trees": trees,
        "call": made.call.facts(),
        "report": asdict(made.report),
        "arithmetic": made.arithmetic,
        "sizes": None if made.sizes is None else made.sizes.facts(),
    }


def decode(facts: dict[str, Any], model: nn.Module) -> Capture:
    """Return the capture of `model` that `encode` wrote.

    Raises:
        Exception: the facts are not those of this version, or of this model.
    """
    root, graph = nn.Module(), Graph()
    nodes: list[Any] = []
    for value in facts["values"]:
        if value is None:
            nodes.append(graph.placeholder(f"input{len(nodes)}"))
        elif isinstance(value, dict):
            name = f"held{len(nodes)}"
            setattr(root, name, _read(value, model))
            nodes.append(graph.get_attr(name))
        else:
            op, arguments, keywords = value
            args = tuple(op_json.reader(arguments)(nodes))
            kwargs = {name: op_json.reader(each)(nodes) for name, each in keywords.items()}
            made = graph.call_function(op_json.function_of(op), args, kwargs)
            if is_region(made):
                check_digest(args[-2])
            nodes.append(made)
    graph.output(tuple(op_json.reader(facts["outputs"])(nodes)))
    trees = [treespec_loads(each) for each in facts["trees"]]
    graph.set_codegen(PyTreeCodeGen(PyTreeInfo(facts["names"], *trees)))
    call = Call.from_facts(facts["call"])
    captured = GraphModule(root, graph)
    return Capture(
        captured,
        call,
        runner(captured, *call.example()),
        Report.from_facts(facts["report"]),
        facts["arithmetic"],
        (),
        (),
        None if facts["sizes"] is None else DynamicSizes.from_facts(facts["sizes"]),
    )


def _held(name: str, held: Any, places: dict[Any, Place]) -> dict[str, Any]:
    """Describe a tensor that a graph reads."""
    if not isinstance(held, Tensor):
        raise ValueError(f"{name} is no tensor")
    kind = [torch_names.name_of(held.dtype), list(held.shape), list(held.stride())]
    place = places.get(_memory_of(held))
    if place is not None:
        return {"place": place, "kind": kind}
    if not name.startswith(FOLDED) or held.nbytes > _MOST_FOLDED:
        raise ValueError(f"{name} is no tensor of the model")
    plain = held.detach().contiguous().flatten().view(torch.uint8)
    return {"bytes": base64.b64encode(plain.numpy().tobytes()).decode(), "kind": kind}


def _read(value: dict[str, Any], model: nn.Module) -> Tensor:
    dtype, shape, stride = value["kind"]
    if "bytes" in value:
        buffer = bytearray(base64.b64decode(value["bytes"], validate=True))
        plain = torch.frombuffer(buffer, dtype=torch_names.dtype_of(dtype)).reshape(shape)
        return torch.empty_strided(shape, stride, dtype=plain.dtype).copy_(plain)
    path, *parts = value["place"]
    owner, _, name = path.rpartition(".")
    found = getattr(model.get_submodule(owner), name)
    for part in parts:
        found = getattr(found, part)
    if not isinstance(found, Tensor):
        raise ValueError(f"{path} is no tensor")
    if [torch_names.name_of(found.dtype), list(found.shape), list(found.stride())] != value["kind"]:
        raise ValueError(f"{path} is of another kind")
    return found


def _tensors_of(model: nn.Module) -> Iterator[tuple[Place, Tensor]]:
    """Return the plain tensors of a model, also those that make up others, with their places."""
    tensors = (*model.named_parameters(), *model.named_buffers())
    left: list[tuple[Place, Any]] = [([name], each) for name, each in tensors]
    while left:
        place, each = left.pop()
        if is_traceable_wrapper_subclass(each):
            names, _ = each.__tensor_flatten__()
            left += [([*place, name], getattr(each, name)) for name in names]
        elif isinstance(each, Tensor):
            yield place, each


def _memory_of(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride()
