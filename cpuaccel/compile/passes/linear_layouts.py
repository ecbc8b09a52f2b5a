"""Reorders linear layers to read rows in memory order, so that attention reads heads by strides.

A linear layer computes each row alone. torch's MultiheadAttention with `batch_first` swaps batch
and sequence before its projections, and swaps them back afterwards. No strides describe its heads
as a view through both swaps, so that each would be a copy.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch.fx import Graph, Node

from cpuaccel._inductor.nodes import call, keep_origin
from cpuaccel.compile.bridge._arguments import bound, only_user
from cpuaccel.compile.bridge.matmul import untransposed
from cpuaccel.compile.bridge.quantized.tensors import (
    CHOOSE,
    DEQUANTIZE,
    DEQUANTIZE_BY_TENSORS,
    QUANTIZE,
    QUANTIZE_BY_TENSORS,
)
from cpuaccel.compile.passes.linear_from_bmm import Linear
from cpuaccel.compile.passes.view_offsets import (
    MOVE_OPS,
    Factor,
    Moved,
    joined,
    moved,
    sizes_of,
    whole,
)

_aten: Any = torch.ops.aten

_ROUNDS = frozenset({QUANTIZE, DEQUANTIZE, QUANTIZE_BY_TENSORS, DEQUANTIZE_BY_TENSORS})
"""Ops between a source and its layer that change each element alone."""

_ATTENTION = _aten._scaled_dot_product_flash_attention_for_cpu.default


def put_in_order(graph: Graph) -> None:
    """Let linear layers of `graph` read rows in memory order, if the readers of the result gain."""
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


def _layer_of(node: Node) -> Linear | None:
    if node.target is _aten.linear.default:
        given = bound(node)
        return Linear(node, given["input"], given["weight"], True, given["bias"])
    if node.target is _aten.mm.default:
        given = bound(node)
        return Linear(node, given["self"], *untransposed(given["mat2"]), None)
    if node.target is _aten.addmm.default:
        given = bound(node)
        bias = given["self"]
        if given["beta"] == 1 and given["alpha"] == 1 and bias.meta["val"].dim() == 1:
            return Linear(node, given["mat1"], *untransposed(given["mat2"]), bias)
    return None


def _try_in_order(graph: Graph, layer: Linear) -> None:
    """Replace `layer` by a layer of ordered rows, unless a reader of its result loses by it.

    This includes layers with only a view before the rounding of their source: the layer that makes
    the source may then round it.
    """
    rounds = _rounds_before(layer.src)
    source: Any = rounds[-1].args[0] if rounds else layer.src
    how = moved(layer.src, rounds)
    if how is None or how.places:
        return
    rows = joined(how.dims[:-1])
    of_root = whole(how.root.meta["val"].shape)
    if how.dims[-1] == of_root[-1]:  # the root itself has ordered rows
        if rows == sorted(rows) and not (rounds and how.count):
            return
        ordered, dims = of_root, how.dims[:-1]
    elif rows != sorted(rows):
        ordered = [*([row] for row in sorted(rows)), how.dims[-1]]
        places = {row: place for place, row in enumerate(sorted(rows))}
        dims = [[Factor(places[row], -1, row.size) for row in dim] for dim in how.dims[:-1]]
    else:
        return
    src = _said_again(graph, source, Moved(how.root, ordered, (), 0))
    result = layer.call(graph, _rounded(graph, rounds, src))
    dims = [*dims, whole(result.meta["val"].shape)[-1]]
    back = _said_again(graph, layer.result, Moved(result, dims, (), 0))
    layer.result.replace_all_uses_with(back)
    readers = _readers(back)
    if all(_gains(node) for node in readers):
        for user in list(source.users):
            if user.target is CHOOSE:  # the range does not depend on the order
                user.replace_input_with(source, src)
        for node in readers:
            how_read = moved(node)
            if how_read is not None:
                _replace_for_readers(node, _said_again(graph, node, how_read))
    else:
        back.replace_all_uses_with(layer.result)
    _erase_unread(graph)


def _rounds_before(src: Node) -> list[Node]:
    """Return the rounding nodes before a layer that only it reads, among moves, last node first."""
    found: list[Node] = []
    node: Any = src
    while node.target in (*_ROUNDS, *MOVE_OPS) and only_user(node) is not None:
        if node.target in _ROUNDS:
            found.append(node)
        node = node.args[0]
    return found


def _rounded(graph: Graph, rounds: list[Node], src: Node) -> Node:
    for each in reversed(rounds):
        with graph.inserting_before(each):
            rounded = call(graph, each.target, src, *each.args[1:], **each.kwargs)
        keep_origin(each, rounded)
        src = rounded
    return src


def _readers(node: Node) -> list[Node]:
    """Return `node` and the moved forms of it that are read by ops other than moves."""
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
    """Say whether `node` is read in memory order, or read by attention without a copy."""
    how = moved(node)
    if how is None:
        return False
    readers = [user for user in node.users if not _moves(user, node)]
    if all(user.target is _ATTENTION and node in user.args[:3] for user in readers):
        return _no_copy(how)
    return how.in_order() and all(user.op != "output" for user in readers)


def _moves(user: Node, node: Node) -> bool:
    return user.target in MOVE_OPS and user.args[0] is node


# Rebuilding moves


_Step = tuple[Any, Any]
"""An op, and its arguments after the first one."""


def _steps(how: Moved) -> list[_Step]:
    """Return the moves from the root: split it to factors, select, permute, and merge."""
    steps: list[_Step] = []
    taken = dict(how.places)
    factors = how.root_factors()
    sizes = [factor.size for factor in factors]
    if sizes != list(how.root.meta["val"].shape):
        steps.append((_aten.view.default, (sizes,)))
    for place, factor in reversed(list(enumerate(factors))):
        if factor in taken:
            steps.append((_aten.select.int, (place, taken[factor])))
            factors.pop(place)
    order = [factors.index(factor) for factor in how.factors()]
    if order != sorted(order):
        steps.append((_aten.permute.default, (order,)))
    wanted = sizes_of(how.dims)
    if wanted != [factors[place].size for place in order]:
        steps.append((_aten.reshape.default, (wanted,)))
    if [op for op, _ in steps] == [_aten.view.default, _aten.reshape.default]:
        return [] if wanted == list(how.root.meta["val"].shape) else steps[1:]
    return steps


def _no_copy(how: Moved) -> bool:
    """Say whether strides describe it: factors of each dimension are adjacent in the root."""
    factors = how.root_factors()
    return all(
        factors.index(after) == factors.index(before) + 1
        for dim in how.dims
        for before, after in itertools.pairwise(dim)
    )


def _said_again(graph: Graph, node: Node, how: Moved) -> Node:
    """Return the node that is moved as `how` says, added before `node`."""
    result = how.root
    with graph.inserting_before(node):
        for op, arguments in _steps(how):
            result = call(graph, op, result, *arguments)
            keep_origin(node, result)
    return result


def _replace_for_readers(node: Node, by: Node) -> None:
    if node is not by:
        node.replace_all_uses_with(by, delete_user_cb=lambda user: not _moves(user, node))


def _erase_unread(graph: Graph) -> None:
    ops = MOVE_OPS | _ROUNDS | {_aten.linear.default, _aten.addmm.default, _aten.mm.default}
    for node in reversed(list(graph.nodes)):
        if not node.users and node.target in ops:
            graph.erase_node(node)
