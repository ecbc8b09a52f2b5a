"""Finds GELU's tanh form, which some models write as its formula, and makes it one op again.

transformers' GPT-2, Phi and T5 have it: x * 0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Graph, Node

from cpuaccel._inductor.nodes import call, keep_origin
from cpuaccel.compile.bridge._arguments import only_user, other_operand

_aten: Any = torch.ops.aten
_NEAR = 1e-6
_CUBIC = 0.044715
_ADDITIONS = (_aten.add.Tensor, _aten.add.Scalar)
_PRODUCTS = (_aten.mul.Tensor, _aten.mul.Scalar)


def restore_gelus(graph: Graph) -> None:
    """Replace each such formula by aten.gelu."""
    for node in graph.find_nodes(op="call_function", target=_aten.tanh.default):
        found = _formula_around(node)
        if found is None:
            continue
        x, result = found
        with graph.inserting_before(result):
            gelu = call(graph, _aten.gelu.default, x, approximate="tanh")
        keep_origin(result, gelu)
        result.replace_all_uses_with(gelu)
        _erase(graph, result)


def _erase(graph: Graph, result: Node) -> None:
    """Erase a node, and its sources that nothing else reads."""
    if result.op == "call_function" and not result.users:
        sources = result.all_input_nodes
        graph.erase_node(result)
        for source in sources:
            _erase(graph, source)


def _formula_around(tanh: Node) -> tuple[Node, Node] | None:
    """Return the source and the result of the formula."""
    inner = _operand(tanh.args[0], _PRODUCTS, math.sqrt(2 / math.pi))
    x = _cubic(inner)
    sum_ = only_user(tanh)
    if x is None or sum_ is None or _operand(sum_, _ADDITIONS, 1.0) is not tanh:
        return None
    result = only_user(sum_)
    if result is None or result.target is not _aten.mul.Tensor:
        return None
    value = result.meta["val"]
    if _operand(other_operand(result, sum_), _PRODUCTS, 0.5) is not x:
        return None
    same = x.meta["val"].dtype == value.dtype and value.dtype.is_floating_point
    return (x, result) if same else None


def _cubic(sum_: Any) -> Node | None:
    """Return x if the node is x + 0.044715 * x^3."""
    if not isinstance(sum_, Node) or sum_.target is not _aten.add.Tensor or sum_.kwargs:
        return None
    for x, term in (sum_.args, sum_.args[::-1]):
        power = _operand(term, _PRODUCTS, _CUBIC)
        if (
            isinstance(x, Node)
            and power is not None
            and power.target is _aten.pow.Tensor_Scalar
            and power.args == (x, 3)
        ):
            return x
    return None


def _operand(node: Any, targets: tuple[Any, ...], number: float) -> Node | None:
    """Return the operand of a node of `targets` whose other operand is about `number`."""
    if not isinstance(node, Node) or node.target not in targets or node.kwargs:
        return None
    first, second = node.args
    if not isinstance(second, (int, float)) or abs(second - number) > _NEAR:
        return None
    return first if isinstance(first, Node) else None
