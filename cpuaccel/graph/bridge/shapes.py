"""What moves numbers and leaves them as they are."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Node

from cpuaccel.graph.bridge._arguments import bound, dimension, floats
from cpuaccel.graph.translation import Refused, Translation

_aten: Any = torch.ops.aten


def _cat(translation: Translation, node: Node) -> None:
    given = bound(node)
    tensors = given["tensors"]
    floats(translation, *tensors)
    ranks = {translation.tensor(each).dim() for each in tensors}
    if len(ranks) != 1:
        raise Refused("an empty tensor among others")
    translation.begin([node], node)
    inputs = [translation.read(each) for each in tensors]
    translation.op("Concat", inputs, node, axis=dimension(given["dim"], ranks.pop()))


def _view(translation: Translation, node: Node) -> None:
    sizes = translation.tensor(node).shape
    dynamic = [dim for dim, size in enumerate(sizes) if not isinstance(size, int)]
    if len(dynamic) > 1:
        # What there is at run time is told by the number of elements.
        raise Refused("a view to several dynamic sizes")
    axis = {"axis": dynamic[0]} if dynamic else {}
    _move(translation, node, bound(node)["self"], "view", **axis)


def _permute(translation: Translation, node: Node) -> None:
    given = bound(node)
    rank = translation.tensor(given["self"]).dim()
    order = [dimension(dim, rank) for dim in given["dims"]]
    _move(translation, node, given["self"], "permute", order=order)


def _transpose(translation: Translation, node: Node) -> None:
    given = bound(node)
    rank = translation.tensor(given["self"]).dim()
    order = list(range(rank))
    a, b = dimension(given["dim0"], rank), dimension(given["dim1"], rank)
    order[a], order[b] = b, a
    _move(translation, node, given["self"], "permute", order=order)


def _slice(translation: Translation, node: Node) -> None:
    given = bound(node)
    sizes = translation.tensor(given["self"]).shape
    axis = dimension(given["dim"], len(sizes))
    size = sizes[axis]
    if given["step"] != 1 or not isinstance(size, int):
        raise Refused("a step, or a dynamic size")
    begin, end = (_place(given[name], size) for name in ("start", "end"))
    places = {"min": begin or 0, "max": size if end is None else end}
    _move(translation, node, given["self"], "slice", axis=axis, **places)


def _split_part(translation: Translation, node: Node) -> None:
    split: Any = node.args[0]
    if not isinstance(split, Node) or split.target not in _SPLITS:
        raise Refused("")
    given = bound(split)
    axis = dimension(given["dim"], translation.tensor(given["self"]).dim())
    sizes = [each.shape[axis] for each in split.meta["val"]]
    index: Any = node.args[1]
    if any(not isinstance(size, int) for size in sizes):
        raise Refused("a dynamic size")
    translation.looked_through.add((node, split))
    places = {"min": sum(sizes[:index]), "max": sum(sizes[: index + 1])}
    _move(translation, node, given["self"], "slice", axis=axis, **places)


def _move(
    translation: Translation, node: Node, source: Any, kind: str, **attributes: int | list[int]
) -> None:
    if translation.is_constant(source):
        raise Refused("")  # what reads it takes the weight itself
    given: dict[str, Any] = dict(attributes)
    translation.begin([node], node)
    translation.op(kind, [translation.read(source)], node, **given)


_SPLITS = (_aten.split.Tensor, _aten.split_with_sizes.default)


def _place(value: Any, size: int) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int):
        raise Refused("a place that is computed")
    return max(0, min(size, value + size if value < 0 else value))


CASTS = frozenset({torch.ops.prims.convert_element_type.default})
"""Ops that make a constant of a constant, in another type."""

MOVES = frozenset({"view", "permute", "slice"})
"""Kinds of ops that are ours, not the library's: csrc/graph/moves.h."""

TRANSLATIONS = {
    operator.getitem: _split_part,
    _aten.clone.default: _view,
    _aten.cat.default: _cat,
    _aten.view.default: _view,
    _aten._unsafe_view.default: _view,
    _aten.reshape.default: _view,
    _aten.unsqueeze.default: _view,
    _aten.squeeze.dim: _view,
    _aten.squeeze.dims: _view,
    _aten.permute.default: _permute,
    _aten.transpose.int: _transpose,
    _aten.slice.Tensor: _slice,
}
