"""Fuses channel shuffles of quint8 images with the ops around them.

A shuffle is torch's own op, or views and a transposition. The concatenation before it and the
chunks after it, each with its table, are fused too.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.fx import Node

from cpuaccel.quant import fused
from cpuaccel.quant._fusion.model import Model, has_hooks
from cpuaccel.quant._fusion.names import name_of
from cpuaccel.quant._fusion.regions import Values
from cpuaccel.quant._fusion.sizes import is_dimension, with_sources
from cpuaccel.quant._fusion.strides import strides_matter

_VIEWS = ("view", "reshape")
_CATS = (torch.cat, torch.concat, torch.concatenate)


@dataclass
class _Shuffle:
    source: Node
    groups: int
    nodes: list[Node]
    """The nodes it is made of, in order; the last is the result."""


def put_shuffles(model: Model) -> None:
    """Replace the shuffles of quint8 images by ops that keep them channels last."""
    values = Values(model)
    # Backwards, so that the views of a later shuffle, which are gone by then, need no strides.
    for node in reversed(list(model.graph.nodes)):
        shuffle = _shuffle(model, node)
        if shuffle is None or any(values.mutated(part) for part in shuffle.nodes):
            continue
        quantizer = values.quantizer(shuffle.source)
        if quantizer is not None and not strides_matter(model, node):
            _replace(model, shuffle, quantizer)


def _shuffle(model: Model, node: Node) -> _Shuffle | None:
    """Return the shuffle that ends with `node`, if one does."""
    module = model.called(node)
    groups: Any = None
    if type(module) is nn.ChannelShuffle and not has_hooks(module):
        groups = module.groups
    elif node.target is torch.channel_shuffle and len(node.args) == 2:
        groups = node.args[1]
    if isinstance(groups, int):
        return _Shuffle(node.all_input_nodes[0], groups, [node])
    return _by_views(node)


def _by_views(node: Node) -> _Shuffle | None:
    """x.view(n, g, c // g, h, w).transpose(1, 2).contiguous().view(n, c, h, w)"""
    if not _is_view(node) or not isinstance(node.args[0], Node):
        return None
    inner = node.args[0]
    middle = [inner] if inner.op == "call_method" and inner.target == "contiguous" else []
    transpose: Any = inner.args[0] if middle else inner
    if not isinstance(transpose, Node) or transpose.target not in ("transpose", torch.transpose):
        return None
    split: Any = transpose.args[0]
    if transpose.args[1:] not in ((1, 2), (2, 1)) or not isinstance(split, Node):
        return None
    parts = [split, transpose, *middle]
    if not _is_view(split) or any(len(part.users) != 1 for part in parts):
        return None
    source, apart, together = split.args[0], _sizes(split), _sizes(node)
    if not isinstance(source, Node) or len(apart) != 5 or len(together) != 4:
        return None
    batch, groups, columns, *image = apart
    if not isinstance(groups, int) or groups < 1:
        return None
    same = (
        all(is_dimension(size, source, 0) for size in (batch, together[0]))
        and all(is_dimension(s, source, i + 2) for i, s in enumerate(image))
        and all(is_dimension(s, source, i + 2) for i, s in enumerate(together[2:]))
        and _is_part(columns, source, groups)
        and (together[1] == -1 or is_dimension(together[1], source, 1))
    )
    return _Shuffle(source, groups, [*parts, node]) if same else None


def _is_view(node: Node) -> bool:
    return node.op == "call_method" and node.target in _VIEWS and not node.kwargs


def _sizes(view: Node) -> tuple[Any, ...]:
    sizes: Any = view.args[1:]
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes


def _is_part(value: object, tensor: Node, groups: int) -> bool:
    if value == -1:
        return True
    if not isinstance(value, Node) or value.target is not operator.floordiv:
        return False
    return is_dimension(value.args[0], tensor, 1) and bool(value.args[1] == groups)


def _replace(model: Model, shuffle: _Shuffle, quantizer: tuple[float, int]) -> None:
    end = shuffle.nodes[-1]
    chunks = [_chunk(user) for user in end.users]
    if chunks and all(chunks):
        for chunk in list(end.users):
            for part in list(chunk.users):
                _put(model, shuffle, quantizer, part, chunk)
    else:
        _put(model, shuffle, quantizer, end, None)
    unused = with_sources([*shuffle.nodes, *(user for user in end.users), shuffle.source])
    model.erase_unused(unused)


def _chunk(node: Node) -> int:
    """Return into how many parts `node` chunks the channels.

    Return 0 if it does anything else, or if its parts are not used one by one.
    """
    if node.target not in ("chunk", torch.chunk):
        return 0
    count: Any = node.args[1] if len(node.args) > 1 else node.kwargs.get("chunks")
    dim = node.args[2] if len(node.args) > 2 else node.kwargs.get("dim", 0)
    parts = all(
        user.target is operator.getitem and isinstance(user.args[1], int) and user.args[1] >= 0
        for user in node.users
    )
    return count if parts and dim == 1 and isinstance(count, int) else 0


def _put(
    model: Model,
    shuffle: _Shuffle,
    quantizer: tuple[float, int],
    result: Node,
    chunk: Node | None,
) -> None:
    """Replace `result`, which is the shuffle or a part of its `chunk`, by one op."""
    first = shuffle.source
    operands: Any = [first]
    if first.target in _CATS and _cat_dim(first) == 1:
        operands = list(first.args[0])  # type: ignore[arg-type]
    names = ["cat"] * (operands != [first]) + ["channel_shuffle"]
    steps = [result]
    table = None
    if chunk is not None:
        names.append(name_of(model, chunk))
        user = next(iter(result.users), None)
        module = model.called(user) if user is not None and len(result.users) == 1 else None
        if type(module) is fused.QuantizedTable and not has_hooks(module):
            table, quantizer = module.table, (module.scale, module.zero_point)
            names += module.ops
            steps.append(user)  # type: ignore[arg-type]
    index: Any = result.args[1] if chunk is not None else 0
    new = fused.ShuffleChannels(
        shuffle.groups,
        _chunk(chunk) if chunk is not None else 1,
        index,
        table,
        *quantizer,
        tuple(names),
    )
    last = steps[-1]
    with model.graph.inserting_before(last):
        call = model.insert_call(model.path_for([], f"fused_{result.name}"), new, (operands,))
    call.meta.update(last.meta)
    last.replace_all_uses_with(call)
    model.erase_unused(reversed(steps))


def _cat_dim(node: Node) -> object:
    return node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
