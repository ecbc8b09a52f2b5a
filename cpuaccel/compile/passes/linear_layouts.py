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
from cpuaccel.compile.bridge._arguments import arguments_of, only_user
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
    VIEW_OPS,
    Factor,
    ViewChain,
    flattened,
    identity_dims,
    sizes_of,
    view_chain_of,
)

_aten: Any = torch.ops.aten

_QUANTIZERS = frozenset({QUANTIZE, DEQUANTIZE, QUANTIZE_BY_TENSORS, DEQUANTIZE_BY_TENSORS})
"""Ops between a source and its layer that change each element alone."""

_ATTENTION = _aten._scaled_dot_product_flash_attention_for_cpu.default


def reorder_rows(graph: Graph) -> None:
    """Let linear layers of `graph` read rows in memory order, if the readers of the result gain."""
    for node in list(graph.nodes):
        layer = _layer_of(node)
        if layer is not None:
            _try_reordered(graph, layer)
    for attention in graph.find_nodes(op="call_function", target=_ATTENTION):
        for operand in attention.args[:3]:
            how = view_chain_of(operand)
            if how is not None and len(_steps(how)) < how.count and _no_copy(how):
                _replace_for_readers(operand, _rebuilt(graph, operand, how))
    _erase_unread(graph)


def _layer_of(node: Node) -> Linear | None:
    if node.target is _aten.linear.default:
        given = arguments_of(node)
        return Linear(node, given["input"], given["weight"], True, given["bias"])
    if node.target is _aten.mm.default:
        given = arguments_of(node)
        return Linear(node, given["self"], *untransposed(given["mat2"]), None)
    if node.target is _aten.addmm.default:
        given = arguments_of(node)
        bias = given["self"]
        if given["beta"] == 1 and given["alpha"] == 1 and bias.meta["val"].dim() == 1:
            return Linear(node, given["mat1"], *untransposed(given["mat2"]), bias)
    return None


def _try_reordered(graph: Graph, layer: Linear) -> None:
    """Replace `layer` by a layer of ordered rows, unless a reader of its result loses by it.

    This includes layers with only a view before the rounding of their source: the layer that makes
    the source may then round it.
    """
    rounds = _quantizers_before(layer.src)
    source: Any = rounds[-1].args[0] if rounds else layer.src
    how = view_chain_of(layer.src, rounds)
    if how is None or how.selected:
        return
    rows = flattened(how.dims[:-1])
    of_root = identity_dims(how.root.meta["val"].shape)
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
    src = _rebuilt(graph, source, ViewChain(how.root, ordered, (), 0))
    result = layer.call(graph, _quantized(graph, rounds, src))
    dims = [*dims, identity_dims(result.meta["val"].shape)[-1]]
    back = _rebuilt(graph, layer.result, ViewChain(result, dims, (), 0))
    layer.result.replace_all_uses_with(back)
    readers = _readers(back)
    if all(_gains_from_order(node) for node in readers):
        for user in list(source.users):
            if user.target is CHOOSE:  # the range does not depend on the order
                user.replace_input_with(source, src)
        for node in readers:
            how_read = view_chain_of(node)
            if how_read is not None:
                _replace_for_readers(node, _rebuilt(graph, node, how_read))
    else:
        back.replace_all_uses_with(layer.result)
    _erase_unread(graph)


def _quantizers_before(src: Node) -> list[Node]:
    """Return the quantizers before a layer that only it reads, among view ops, last node first."""
    found: list[Node] = []
    node: Any = src
    while node.target in (*_QUANTIZERS, *VIEW_OPS) and only_user(node) is not None:
        if node.target in _QUANTIZERS:
            found.append(node)
        node = node.args[0]
    return found


def _quantized(graph: Graph, rounds: list[Node], src: Node) -> Node:
    for each in reversed(rounds):
        with graph.inserting_before(each):
            rounded = call(graph, each.target, src, *each.args[1:], **each.kwargs)
        keep_origin(each, rounded)
        src = rounded
    return src


def _readers(node: Node) -> list[Node]:
    """Return `node` and the views of it that are read by ops other than view ops."""
    found: list[Node] = []
    left = [node]
    while left:
        each = left.pop()
        views = [user for user in each.users if _is_view_of(user, each)]
        left += views
        if len(views) < len(each.users):
            found.append(each)
    return found


def _gains_from_order(node: Node) -> bool:
    """Say whether `node` is read in memory order, or read by attention without a copy."""
    how = view_chain_of(node)
    if how is None:
        return False
    readers = [user for user in node.users if not _is_view_of(user, node)]
    if all(user.target is _ATTENTION and node in user.args[:3] for user in readers):
        return _no_copy(how)
    return how.in_order() and all(user.op != "output" for user in readers)


def _is_view_of(user: Node, node: Node) -> bool:
    return user.target in VIEW_OPS and user.args[0] is node


# Rebuilding view chains


_Step = tuple[Any, Any]
"""An op, and its arguments after the first one."""


def _steps(how: ViewChain) -> list[_Step]:
    """Return the view ops from the root: split it to factors, select, permute, and merge."""
    steps: list[_Step] = []
    taken = dict(how.selected)
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


def _no_copy(how: ViewChain) -> bool:
    """Say whether strides describe it: factors of each dimension are adjacent in the root."""
    factors = how.root_factors()
    return all(
        factors.index(after) == factors.index(before) + 1
        for dim in how.dims
        for before, after in itertools.pairwise(dim)
    )


def _rebuilt(graph: Graph, node: Node, how: ViewChain) -> Node:
    """Add the view ops of `how` before `node`, and return the last one."""
    result = how.root
    with graph.inserting_before(node):
        for op, arguments in _steps(how):
            result = call(graph, op, result, *arguments)
            keep_origin(node, result)
    return result


def _replace_for_readers(node: Node, by: Node) -> None:
    if node is not by:
        node.replace_all_uses_with(by, delete_user_cb=lambda user: not _is_view_of(user, node))


def _erase_unread(graph: Graph) -> None:
    ops = VIEW_OPS | _QUANTIZERS | {_aten.linear.default, _aten.addmm.default, _aten.mm.default}
    for node in reversed(list(graph.nodes)):
        if not node.users and node.target in ops:
            graph.erase_node(node)
