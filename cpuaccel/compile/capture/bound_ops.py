"""Binds ops of a captured graph that follow one another, so that one call from Python runs them.

Small ops between regions, such as those of rotary embeddings, take less time than their calls from
Python. In C++: csrc/ops/bound_ops.cpp.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from cpuaccel._compat import OpOverload

_torch: Any = torch  # its annotations lack torch.classes.cpuaccel

_LEAST = 2
"""Ops that a call binds at least."""


def bind(graph: Graph, tensors: set[Node], regions: set[Node]) -> None:
    """Replace ops that follow one another by calls of `BoundOps`.

    `tensors`: the inputs and attributes of the graph that are tensors, of no subclass; `regions`:
    calls that return lists of such tensors.
    """
    tensors, lists = set(tensors), set(regions)
    runs: list[list[Node]] = [[]]
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        if _is_bindable(node, tensors):
            runs[-1].append(node)
        else:
            runs.append([])
        _classify(node, tensors, lists)
    for run in runs:
        if len(run) >= _LEAST:
            _replace(graph, run)


def _classify(node: Node, tensors: set[Node], lists: set[Node]) -> None:
    """Add a node to `tensors` or `lists` if its results can be nothing else."""
    op: Any = node.target
    if op is operator.getitem and node.args[0] in lists:
        tensors.add(node)
    elif isinstance(op, OpOverload) and all(
        each in tensors or each in lists for each in node.all_input_nodes
    ):
        kinds = [str(each.type) for each in op._schema.returns]
        if kinds == ["Tensor"]:
            tensors.add(node)
        elif kinds == ["List[Tensor]"] or set(kinds) == {"Tensor"}:
            lists.add(node)


def _is_bindable(node: Node, tensors: set[Node]) -> bool:
    """Say whether a node calls an op of torch that writes to nothing and returns one tensor."""
    op: Any = node.target
    if not isinstance(op, OpOverload) or op.namespace != "aten" or op._schema.is_mutable:
        return False
    if not tensors.issuperset(node.all_input_nodes):
        return False
    try:
        _add(_bound_ops(1), node, dict.fromkeys(node.all_input_nodes, 0))
    except (RuntimeError, TypeError):
        return False  # it returns something else, or BoundOps does not take an argument's type
    return True


def _add(ops: Any, node: Node, numbers: dict[Node, int]) -> None:
    """Add the call of `node`, whose tensors have these numbers."""
    op: Any = node.target
    tensors: list[list[int]] = []
    constants: list[Any] = []
    for number, each in enumerate(op._schema.arguments):
        given = node.args[number : number + 1] or [node.kwargs.get(each.name, each.default_value)]
        value: Any = given[0]
        several = value if isinstance(value, (tuple, list)) else [value]
        has_tensors = any(isinstance(part, Node) for part in several)
        tensors.append([numbers[part] for part in several] if has_tensors else [])
        if has_tensors:
            value = None
        constants.append(list(value) if isinstance(value, tuple) else value)
    name, _, overload = op.name().partition(".")
    ops.add(name, overload, tensors, constants)


def _replace(graph: Graph, run: list[Node]) -> None:
    inputs = list(dict.fromkeys(each for node in run for each in node.all_input_nodes))
    inputs = [each for each in inputs if each not in run]
    numbers = {node: number for number, node in enumerate([*inputs, *run])}
    results = [node for node in run if any(user not in run for user in node.users)]
    ops = _bound_ops(len(inputs))
    for node in run:
        _add(ops, node, numbers)
    ops.finish([numbers[node] for node in results])
    call = ops.run  # torch creates a new method object at each attribute access

    def bound(tensors: list[Tensor]) -> list[Tensor]:
        found: list[Tensor] = call(tensors)
        return found

    with graph.inserting_after(run[-1]):
        made = graph.call_function(bound, (inputs,))
    for number, node in enumerate(results):
        with graph.inserting_after(made):
            node.replace_all_uses_with(graph.call_function(operator.getitem, (made, number)))
    for node in reversed(run):
        graph.erase_node(node)


def _bound_ops(inputs: int) -> Any:
    return _torch.classes.cpuaccel.BoundOps(inputs)
