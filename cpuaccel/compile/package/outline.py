"""A readable outline of a graph: its nodes in order, what each reads, dtypes and sizes of results.

A file has it beside the program: the list of ops (`package/op_list.py`) has no sizes between its
ops, and the program of a package is code.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.fx import Node

from cpuaccel._compat import tree_leaves
from cpuaccel.compile.bridge.op_json import GETITEM
from cpuaccel.compile.common.torch_names import name_of
from cpuaccel.compile.package.schemas import REGION

if TYPE_CHECKING:
    from torch.export import ExportedProgram

INPUT = "input"
"""`op` of an argument of the call. That of a getitem is GETITEM; nodes that read a getitem refer to
the op that it reads."""


def outline(program: ExportedProgram) -> dict[str, Any]:
    """Return the graph of `program` as JSON values.

    `nodes` are the call's tensors, then all ops in the order of the graph, the same as those of
    `op_list.encode`. A node has `name`, `op`, its `results` as dtypes and sizes, and its `reads` in
    the order of its arguments: the number of a node and of one of its results; None for a weight. A
    region also has its `program`. `returns` are the results of the call, in the format of `reads`.
    """
    found: dict[Node, list[int] | None] = {}
    nodes: list[dict[str, Any]] = []
    returns: list[Any] = []
    given = set(program.graph_signature.user_inputs)
    returned = set(program.graph_signature.user_outputs)
    for node in program.graph.nodes:
        leaves = tree_leaves((node.args, node.kwargs))
        sources = [leaf for leaf in leaves if isinstance(leaf, Node)]
        if node.op == "output":
            returns = [found[each] for each in sources if each.name in returned]
        elif node.op == "call_function" or node.name in given:
            found[node] = [len(nodes), 0]
            source = found[sources[0]] if node.target is operator.getitem else None
            if source is not None:
                found[node] = [source[0], node.args[1]]
            nodes.append(_node(node, [found[each] for each in sources]))
        else:
            found[node] = None
    return {"nodes": nodes, "returns": returns}


def _node(node: Node, reads: list[Any]) -> dict[str, Any]:
    is_input = node.op == "placeholder"
    op = GETITEM if node.target is operator.getitem else str(node.target)
    said: dict[str, Any] = {
        "name": node.name,
        "op": INPUT if is_input else op.removeprefix("aten.").removesuffix(".default"),
        "reads": reads,
        "results": [_kind(each) for each in tree_leaves(node.meta.get("val"))],
    }
    if op == REGION:
        said["program"] = node.args[2]
    return said


def _kind(value: Any) -> list[Any] | None:
    """Return dtype and sizes of a result; None for results other than tensors.

    A size that is not a number is given by its symbolic name.
    """
    if not isinstance(value, Tensor):
        return None
    sizes = [size if isinstance(size, int) else str(size) for size in value.shape]
    return [name_of(value.dtype), sizes]
