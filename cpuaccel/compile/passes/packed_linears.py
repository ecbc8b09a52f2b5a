"""Puts linear layers of inference graphs on cpuaccel's kernels, in builds without oneDNN.

`package/aot.py` uses it for packages too, because a package calls torch's products past the
dispatcher.

A product with a constant weight, its bias and the activation after it become one call of
cpuaccel::kept_linear, which packs the weight once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

from cpuaccel._inductor.nodes import keep_origin
from cpuaccel._ops import kept_linear as _kept_linear_op  # noqa: F401  the fake kernel
from cpuaccel.compile.bridge._arguments import arguments_of
from cpuaccel.compile.bridge.activations import activation_of
from cpuaccel.compile.bridge.shapes import VIEWS
from cpuaccel.compile.common import report, torch_names

_aten: Any = torch.ops.aten
_prims: Any = torch.ops.prims

KIND = "KeptLinear"
"""The kind of such a layer in a report."""

_REASON = "built without oneDNN: cpuaccel's kernel packs the weight once"
_TYPES = (torch.float32, torch.bfloat16)
_CASTS = (_prims.convert_element_type.default, _aten._to_copy.default)


def rewrite(graph: Graph, weights: set[Node], reason: str = _REASON) -> report.Report:
    """Replace products with one of `weights`, and report them with this `reason`."""
    taken = []
    for node in list(graph.nodes):
        found = product_of(node)
        if found is not None and found[1] in weights:
            taken.append((_put(graph, node, *found, reason),))
    graph.eliminate_dead_code()
    return report.Report(report.current_compile_id(), tuple(taken), ())


def product_of(node: Node) -> tuple[Node, Node, Node | None] | None:
    """Return source, weight and bias if `node` is the product of a linear layer."""
    arguments = (
        arguments_of(node) if node.target in (_aten.mm.default, _aten.addmm.default) else None
    )
    if arguments is None:
        return None
    bias: Node | None = None
    if node.target is _aten.addmm.default:
        source, other, bias = arguments["mat1"], arguments["mat2"], arguments["self"]
        plain = arguments["beta"] == 1 and arguments["alpha"] == 1
        if not plain or not isinstance(bias, Node) or bias.meta["val"].dim() != 1:
            return None
    else:
        source, other = arguments["self"], arguments["mat2"]
    weight = _transposed(other)
    if weight is None:
        return None
    weight = _before_cast(weight, source.meta["val"].dtype)
    if source.meta["val"].dtype not in _TYPES:
        return None
    return source, weight, bias


def _transposed(node: Node) -> Node | None:
    """Return the matrix whose transpose `node` is."""
    if node.target is _aten.transpose.int:
        turned = node.args[1] != node.args[2]
    elif node.target is _aten.permute.default:
        turned = node.args[1] == [1, 0]
    else:
        turned = node.target is _aten.t.default
    source: Any = node.args[0] if turned else None
    return source  # type: ignore[no-any-return]


def _before_cast(weight: Node, dtype: torch.dtype) -> Node:
    """Return the fp32 weight before autocast's cast to bf16, because packing rounds it too."""
    if weight.target in _CASTS and dtype == torch.bfloat16:
        source: Any = weight.args[0]
        if source.meta["val"].dtype == torch.float32:
            return source  # type: ignore[no-any-return]
    return weight


def _put(
    graph: Graph, node: Node, source: Node, weight: Node, bias: Node | None, reason: str
) -> Any:
    follows = _activation_behind(node)
    name = "" if follows is None else activation_of(follows)
    with graph.inserting_before(node):
        call = graph.call_function(
            torch.ops.cpuaccel.kept_linear.default, (source, weight, bias, name)
        )
    keep_origin(node, call)
    call.meta["val"] = node.meta["val"]
    if follows is not None:
        before: Any = follows.args[0]
        follows.replace_all_uses_with(before)
        graph.erase_node(follows)
    node.replace_all_uses_with(call)
    graph.erase_node(node)
    dtype = torch_names.name_of(call.meta["val"].dtype)
    return report.Partition((KIND, name) if name else (KIND,), dtype, reason)


def _activation_behind(node: Node) -> Node | None:
    """Return the activation that is the only reader of the product, possibly through views."""
    while len(node.users) == 1:
        (user,) = node.users
        if activation_of(user) is not None:
            return user
        if user.target not in VIEWS:
            return None
        node = user
    return None
