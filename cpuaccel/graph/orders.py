"""Rows in the order in which they lie: linear layers read them so, and attention reads its heads.

A linear layer computes each row alone. torch's MultiheadAttention of `batch_first` puts words
before batches in front of its projections, and takes that back behind them; its heads are views of
both that no strides describe, each of which would be a copy.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from cpuaccel._inductor.nodes import keep_origin
from cpuaccel.graph.bridge._arguments import bound, only_user
from cpuaccel.graph.bridge.matmul import untransposed
from cpuaccel.graph.bridge.quantized.tensors import (
    CHOOSE,
    DEQUANTIZE,
    DEQUANTIZE_BY_TENSORS,
    QUANTIZE,
    QUANTIZE_BY_TENSORS,
)
from cpuaccel.graph.factors import MOVES, Factor, Moved, moved, sizes_of, whole

_aten: Any = torch.ops.aten

_ROUNDS = frozenset({QUANTIZE, DEQUANTIZE, QUANTIZE_BY_TENSORS, DEQUANTIZE_BY_TENSORS})
"""What is done to each number alone on the way to a layer."""

_ATTENTION = _aten._scaled_dot_product_flash_attention_for_cpu.default


def put_in_order(graph: Graph) -> None:
    """Let linear layers of `graph` read rows as they lie, where what they are for gains by it."""
    for node in list(graph.nodes):
        layer = _layer_of(node)
        if layer is not None:
            _try_in_order(graph, layer)
    for attention in graph.find_nodes(op="call_function", target=_ATTENTION):
        for operand in attention.args[:3]:
            how = moved(operand)
            if how is not None and len(_steps(how)) < how.count and _no_copy(how):
                _replace_for_readers(operand, _said_again(graph, operand, how))
    _erase_unread(graph)


@dataclass(frozen=True)
class _Layer:
    result: Node
    src: Node
    weight: Node
    transposed: bool
    """Whether `weight` is (N, K), as of aten.linear."""
    bias: Node | None


def _layer_of(node: Node) -> _Layer | None:
    if node.target is _aten.linear.default:
        given = bound(node)
        return _Layer(node, given["input"], given["weight"], True, given["bias"])
    if node.target is _aten.mm.default:
        given = bound(node)
        return _Layer(node, given["self"], *untransposed(given["mat2"]), None)
    if node.target is _aten.addmm.default:
        given = bound(node)
        bias = given["self"]
        if given["beta"] == 1 and given["alpha"] == 1 and bias.meta["val"].dim() == 1:
            return _Layer(node, given["mat1"], *untransposed(given["mat2"]), bias)
    return None


def _try_in_order(graph: Graph, layer: _Layer) -> None:
    """Put a layer of ordered rows in place of `layer`, unless some reader loses by it.

    Also where only a view is in front of what rounds its source: who made that may round it then.
    """
    rounds = _rounds_before(layer.src)
    source: Any = rounds[-1].args[0] if rounds else layer.src
    how = moved(layer.src, rounds)
    if how is None or how.places:
        return
    rows = [factor for dim in how.dims[:-1] for factor in dim]
    of_root = whole(how.root.meta["val"].shape)
    if how.dims[-1] == of_root[-1]:  # the root itself
        if rows == sorted(rows) and not (rounds and how.count):
            return
        ordered, dims = of_root, how.dims[:-1]
    elif rows != sorted(rows):
        ordered = [*([row] for row in sorted(rows)), how.dims[-1]]
        places = {row: place for place, row in enumerate(sorted(rows))}
        dims = [[Factor(places[row], -1, row.size) for row in dim] for dim in how.dims[:-1]]
    else:
        return
    before = set(graph.nodes)
    result = _computed(graph, layer, rounds, source, Moved(how.root, ordered, (), 0))
    dims = [*dims, whole(result.meta["val"].shape)[-1]]
    back = _said_again(graph, layer.result, Moved(result, dims, (), 0))
    layer.result.replace_all_uses_with(back)
    readers = _readers(back)
    if all(_gains(node) for node in readers):
        for choose in _chosen_of(source):
            choose.replace_input_with(source, _source_of_rounds(result))
        for node in readers:
            how_read = moved(node)
            if how_read is not None:
                _replace_for_readers(node, _said_again(graph, node, how_read))
        _erase_unread(graph)
    else:
        back.replace_all_uses_with(layer.result)
        for node in reversed(list(graph.nodes)):
            if node not in before:
                graph.erase_node(node)


def _rounds_before(src: Node) -> list[Node]:
    """Return what rounds the source of a layer for it alone, among moves, the last first."""
    found: list[Node] = []
    node: Any = src
    while node.target in (*_ROUNDS, *MOVES) and only_user(node) is not None:
        if node.target in _ROUNDS:
            found.append(node)
        node = node.args[0]
    return found


def _computed(
    graph: Graph, layer: _Layer, rounds: list[Node], source: Node, ordered: Moved
) -> Node:
    src = _said_again(graph, source, ordered)
    for each in reversed(rounds):
        with graph.inserting_before(each):
            src = _call(graph, each, each.target, (src, *each.args[1:]), each.kwargs)
    weight = layer.weight
    with graph.inserting_before(layer.result):
        if not layer.transposed:
            weight = _call(graph, layer.result, _aten.permute.default, (weight, [1, 0]))
        bias = () if layer.bias is None else (layer.bias,)
        return _call(graph, layer.result, _aten.linear.default, (src, weight, *bias))


def _source_of_rounds(linear: Node) -> Node:
    node: Any = linear.args[0]
    while node.target in _ROUNDS:
        node = node.args[0]
    return node  # type: ignore[no-any-return]


def _chosen_of(source: Node) -> list[Node]:
    """Return what finds the range of `source`, which no order of its numbers changes."""
    return [user for user in source.users if user.target is CHOOSE]


def _readers(node: Node) -> list[Node]:
    """Return what of `node`, and of all that it is moved to, is read by more than moves."""
    found: list[Node] = []
    left = [node]
    while left:
        each = left.pop()
        moves = [user for user in each.users if _moves(user, each)]
        left += moves
        if len(moves) < len(each.users):
            found.append(each)
    return found


def _gains(node: Node) -> bool:
    """Say whether what reads `node` reads it as it lies now: in order, or as attention reads."""
    how = moved(node)
    if how is None:
        return False
    readers = [user for user in node.users if not _moves(user, node)]
    if all(user.target is _ATTENTION and node in user.args[:3] for user in readers):
        return _no_copy(how)
    return how.in_order() and all(user.op != "output" for user in readers)


def _moves(user: Node, node: Node) -> bool:
    return user.target in MOVES and user.args[0] is node


# Saying moves again


_Step = tuple[Any, Any]
"""An op, and its arguments but the first."""


def _steps(how: Moved) -> list[_Step]:
    """Return how a root is moved so: its factors apart, in order, and together."""
    steps: list[_Step] = []
    taken = dict(how.places)
    factors = sorted([*(factor for dim in how.dims for factor in dim), *taken])
    sizes = [factor.size for factor in factors]
    if sizes != list(how.root.meta["val"].shape):
        steps.append((_aten.view.default, (sizes,)))
    for place, factor in reversed(list(enumerate(factors))):
        if factor in taken:
            steps.append((_aten.select.int, (place, taken[factor])))
            factors.pop(place)
    order = [factors.index(factor) for dim in how.dims for factor in dim]
    if order != sorted(order):
        steps.append((_aten.permute.default, (order,)))
    wanted = sizes_of(how.dims)
    if wanted != [factors[place].size for place in order]:
        steps.append((_aten.reshape.default, (wanted,)))
    if [op for op, _ in steps] == [_aten.view.default, _aten.reshape.default]:
        return [] if wanted == list(how.root.meta["val"].shape) else steps[1:]
    return steps


def _no_copy(how: Moved) -> bool:
    """Say whether strides can say it: in each dimension are factors that follow each other."""
    taken = {factor for factor, _ in how.places}
    factors = sorted([*(factor for dim in how.dims for factor in dim), *taken])
    return all(
        factors.index(after) == factors.index(before) + 1
        for dim in how.dims
        for before, after in itertools.pairwise(dim)
    )


def _said_again(graph: Graph, node: Node, how: Moved) -> Node:
    """Return what is moved as `how` says, in place of `node`."""
    result = how.root
    with graph.inserting_before(node):
        for op, arguments in _steps(how):
            result = _call(graph, node, op, (result, *arguments))
    return result


def _call(graph: Graph, origin: Node, op: Any, args: Any, kwargs: Any = None) -> Node:
    node = graph.call_function(op, args, kwargs)
    keep_origin(origin, node)
    known = map_arg((node.args, node.kwargs), lambda each: each.meta["val"])
    node.meta["val"] = op(*known[0], **known[1])
    return node


def _replace_for_readers(node: Node, by: Node) -> None:
    if node is not by:
        node.replace_all_uses_with(by, delete_user_cb=lambda user: not _moves(user, node))


def _erase_unread(graph: Graph) -> None:
    ops = MOVES | _ROUNDS | {_aten.linear.default, _aten.addmm.default, _aten.mm.default}
    for node in reversed(list(graph.nodes)):
        if not node.users and node.target in ops:
            graph.erase_node(node)
