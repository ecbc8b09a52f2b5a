"""A readable outline of a graph: its nodes in order, what each reads, dtypes and sizes of results.

A file has it beside the program: the program of `flat.py` has no sizes between its ops, and that of
a package is code.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.fx import Node

from cpuaccel.graph.schemas import REGION

if TYPE_CHECKING:
    from torch.export import ExportedProgram

INPUT, GETITEM = "input", "getitem"
"""What is no op: an argument of the call, and one of an op's results, which readers read there."""


def outline(program: ExportedProgram) -> dict[str, Any]:
    """Return the graph of `program` in the words of JSON.

    `nodes` are the call's tensors, then every op in the order of the graph, those of `flat.encode`
    one to one. A node has `name`, `op`, the `results` as types and sizes, and its `reads`, in the
    order of its arguments: numbers of a node and of a result of it, None for a weight. That of a
    region has its `program` too. `returns` is what the call returns, in the same way.
    """
    found: dict[Node, list[int] | None] = {}
    nodes: list[dict[str, Any]] = []
    returns: list[Any] = []
    signature = program.graph_signature
    given, returned = set(signature.user_inputs), set(signature.user_outputs)
    for node in program.graph.nodes:
        if node.op == "output":
            nodes_out = [each for each in _nodes_in(node.args[0]) if each.name in returned]
            returns = [found[each] for each in nodes_out]
        elif node.op == "call_function" or node.name in given:
            found[node] = [len(nodes), 0]
            source = found[node.args[0]] if node.target is operator.getitem else None
            if source is not None:
                found[node] = [source[0], node.args[1]]
            nodes.append(_node(node, found))
        else:
            found[node] = None
    return {"nodes": nodes, "returns": returns}


def _node(node: Node, found: Mapping[Node, list[int] | None]) -> dict[str, Any]:
    is_input = node.op == "placeholder"
    op = GETITEM if node.target is operator.getitem else str(node.target)
    said: dict[str, Any] = {
        "name": node.name,
        "op": INPUT if is_input else op.removeprefix("aten.").removesuffix(".default"),
        "reads": [found[each] for each in _nodes_in([*node.args, *node.kwargs.values()])],
        "results": _kinds(node.meta.get("val")),
    }
    if op == REGION:
        said["program"] = node.args[2]
    return said


def _nodes_in(value: Any) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _nodes_in(each)
    elif isinstance(value, dict):
        yield from _nodes_in(list(value.values()))


def _kinds(value: Any) -> list[Any]:
    """Return type and sizes of each result; None of what is no tensor.

    A size that depends on numbers is the name of it.
    """
    if isinstance(value, (list, tuple)):
        return [kind for each in value for kind in _kinds(each)]
    if isinstance(value, Tensor):
        sizes = [size if isinstance(size, int) else str(size) for size in value.shape]
        return [[str(value.dtype).removeprefix("torch."), sizes]]
    return [None]
