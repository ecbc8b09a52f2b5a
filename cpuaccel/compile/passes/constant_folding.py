"""Constant folding: computes tensors that depend on numbers only (positions, masks) once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from cpuaccel._compat import OpOverload, tree_leaves
from cpuaccel.compile.bridge.torch_fallback import VIEWS
from cpuaccel.compile.passes.aliasing import aliased_by

MOST_BYTES = 1 << 20
"""Largest size of a folded tensor: reading a larger one may take longer than computing it."""

FOLDED = "_folded_"
"""What names of folded tensors begin with."""

_aten: Any = torch.ops.aten

_CREATION_OPS = (
    _aten.arange.default,
    _aten.arange.start,
    _aten.arange.start_step,
    _aten.zeros.default,
    _aten.ones.default,
    _aten.full.default,
    _aten.scalar_tensor.default,
    _aten.eye.default,
    _aten.eye.m,
)
"""Ops whose results depend on their arguments only."""

_UNKNOWN_RESULTS = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")


def fold(captured: GraphModule) -> None:
    """Compute once what `captured` would compute from numbers only in each call.

    Results of the graph, and nodes that a result may be a view of, are not folded: the caller may
    mutate them.
    """
    graph = captured.graph
    given_away = returned_or_aliased(graph.output_node())
    values: dict[Node, Tensor] = {}
    for node in graph.nodes:
        if node not in given_away and _is_constant(node, values):
            value = _computed(node, values)
            if value is not None:
                values[node] = value
    for node, value in values.items():
        if all(user in values for user in node.users):
            continue
        name = f"{FOLDED}{node.name}"
        captured.register_buffer(name, value, persistent=False)
        with graph.inserting_before(node):
            constant = graph.get_attr(name)
        constant.meta = dict(node.meta)
        node.replace_all_uses_with(constant)
    graph.eliminate_dead_code()


def returned_or_aliased(output: Node) -> set[Node]:
    """Return the nodes that the graph returns, and those that a result may be a view of."""
    found: set[Node] = set()
    left = list(output.all_input_nodes)
    while left:
        node = left.pop()
        if node in found:
            continue
        found.add(node)
        if node.target in VIEWS or not isinstance(node.target, OpOverload):
            left += node.all_input_nodes
        else:
            left += aliased_by(node)
    return found


def _is_constant(node: Node, values: dict[Node, Tensor]) -> bool:
    op = node.target
    if node.op != "call_function" or not isinstance(op, OpOverload):
        return False
    if any(isinstance(each, torch.SymInt) for each in tree_leaves((node.args, node.kwargs))):
        return False
    if not node.all_input_nodes:
        return op in _CREATION_OPS
    return (
        op.namespace == "aten"
        and not op._schema.is_mutable
        and torch.Tag.nondeterministic_seeded not in op.tags
        and op._schema.name.removeprefix("aten::") not in _UNKNOWN_RESULTS
        and all(each in values for each in node.all_input_nodes)
    )


def _computed(node: Node, values: dict[Node, Tensor]) -> Tensor | None:
    """Return the value of `node`; None if it is large, or not a strided CPU tensor."""
    expected = node.meta.get("val")
    if not isinstance(expected, Tensor) or expected.device.type != "cpu":
        return None
    if expected.layout is not torch.strided or expected.nbytes > MOST_BYTES:
        return None
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), values.__getitem__)
    with torch.no_grad():
        found: Any = node.target(*args, **kwargs)  # type: ignore[operator]
    return found if isinstance(found, Tensor) else None
