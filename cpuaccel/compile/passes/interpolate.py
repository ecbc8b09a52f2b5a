"""Preserves F.interpolate: replaces it by cpuaccel::resize in Dynamo's graph.

torch decomposes it while a graph is traced. This decomposition is part of the op, not of a table,
and cannot be turned off. Therefore the op is replaced before.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import GraphModule, Node

from cpuaccel._compat import FakeTensor, is_functorch_tensor
from cpuaccel._inductor.nodes import keep_origin
from cpuaccel._ops import resize
from cpuaccel.compile.bridge.translation import Fallback
from cpuaccel.compile.common import report

_signature = inspect.signature(F.interpolate)


def replace_calls(gm: GraphModule) -> None:
    """Replace F.interpolate by cpuaccel::resize wherever `gm` calls it in a supported mode."""
    for node in gm.graph.find_nodes(op="call_function", target=F.interpolate):
        try:
            arguments = _arguments(node)
        except Fallback as why:
            report.count_fallback("interpolate", str(why), node.name)
        else:
            _replace(gm, node, arguments)
    gm.recompile()


def _arguments(node: Node) -> tuple[Any, ...]:
    """Return the arguments of cpuaccel::resize. Raises Fallback for unsupported ones."""
    try:
        bound = _signature.bind(*node.args, **node.kwargs)
    except TypeError as error:
        raise Fallback(str(error)) from None
    bound.apply_defaults()
    given = bound.arguments
    images, mode, align_corners = given["input"], given["mode"], given["align_corners"]
    value = images.meta.get("example_value") if isinstance(images, Node) else None
    if not isinstance(value, FakeTensor) or is_functorch_tensor(value):
        raise Fallback("a transform, or a tensor subclass")
    if value.dim() != 4:
        raise Fallback("not a batch of 2-D images")
    if mode not in resize.MODES or given["antialias"]:
        raise Fallback("a mode that oneDNN lacks")
    if given["recompute_scale_factor"]:
        raise Fallback("recompute_scale_factor")
    if mode == "nearest" and align_corners is not None:
        raise Fallback("align_corners in nearest mode")  # torch raises an error
    if (given["size"] is None) == (given["scale_factor"] is None):
        raise Fallback("both or neither of size and scale_factor")  # torch raises an error
    size, scales = given["size"], given["scale_factor"]
    size = None if size is None else _two(size, int)
    scales = None if scales is None else [float(each) for each in _two(scales, (int, float))]
    return images, size, scales, mode, bool(align_corners)


def _two(value: Any, kind: Any) -> list[Any]:
    """Return a list of two numbers, one for each dimension."""
    values = list(value) if isinstance(value, (list, tuple)) else [value, value]
    if len(values) != 2 or not all(isinstance(each, kind) for each in values):
        raise Fallback("a dynamic size or scale")
    return values


def _replace(gm: GraphModule, node: Node, arguments: tuple[Any, ...]) -> None:
    with gm.graph.inserting_before(node):
        call = gm.graph.call_function(torch.ops.cpuaccel.resize.default, arguments)
    call.meta.update(node.meta)
    keep_origin(node, call)
    node.replace_all_uses_with(call)
    gm.graph.erase_node(node)
