"""Translates view ops (views, permutations, slices, splits) and cat, which compute nothing."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from cpuaccel.compile.bridge._arguments import arguments_of, common_float_dtype, dimension
from cpuaccel.compile.bridge.translation import Fallback, Translation

_aten: Any = torch.ops.aten


def _cat(translation: Translation, node: Node) -> None:
    given = arguments_of(node)
    tensors = given["tensors"]
    dimensions = {translation.tensor(each).dim() for each in tensors}
    if len(dimensions) != 1:
        raise Fallback("tensors with different numbers of dimensions")
    translation.begin([node], node)
    inputs = [translation.read(each) for each in tensors]
    axis = dimension(given["dim"], dimensions.pop())
    if {translation.tensor(each).dtype for each in tensors} == {torch.uint8}:
        translation.op("q_concat", inputs, node, axis=axis, table_of=[-1] * len(inputs))
        return
    common_float_dtype(translation, *tensors)
    translation.op("Concat", inputs, node, axis=axis)


@dataclass(frozen=True)
class ViewOp:
    """A view op on `source`, as an op of csrc/plan/view_ops.h."""

    source: Node
    kind: str
    attributes: dict[str, Any]
    looked_through: tuple[Node, ...] = ()


def view_op_of(translation: Translation, node: Node) -> ViewOp | None:
    """Return the view op of `node`; None for other ops. Raises Fallback for unsupported ones."""
    find = _VIEW_OPS.get(node.target)
    return find(translation, node) if find is not None else None


def _view(translation: Translation, node: Node) -> ViewOp:
    source = arguments_of(node)["self"]
    from_sizes = translation.tensor(source).shape
    return ViewOp(source, "view", view_attributes(from_sizes, translation.tensor(node).shape))


def view_attributes(from_sizes: Sequence[Any], sizes: Sequence[Any]) -> dict[str, Any]:
    """Return the attributes that tell a view how to find its dynamic sizes."""
    dynamic = [dim for dim, size in enumerate(sizes) if not isinstance(size, int)]
    if len(dynamic) < 2:
        return {"axis": dynamic[0]} if dynamic else {}
    dims = [_dimension_of(size, from_sizes) for size in sizes]
    unknown = [dim for dim in dynamic if dims[dim] < 0]
    if len(unknown) > 1:
        # At run time, the number of elements determines one unknown size.
        raise Fallback("a view with several dynamic sizes that its source lacks")
    return {"dims": dims, **({"axis": unknown[0]} if unknown else {})}


def _dimension_of(size: Any, sizes: Sequence[Any]) -> int:
    """Return the dimension that has this dynamic size; -1 if none is known to have it."""
    if isinstance(size, int):
        return -1
    dynamic = ((dim, other) for dim, other in enumerate(sizes) if not isinstance(other, int))
    return next((dim for dim, other in dynamic if statically_known_true(size == other)), -1)


def _permute(translation: Translation, node: Node) -> ViewOp:
    source = arguments_of(node)["self"]
    return ViewOp(source, "permute", {"order": permutation(node, translation.tensor(source).dim())})


def permutation(node: Node, rank: int) -> list[int] | None:
    """Return the source's dimension for each dimension of `node`; None if it does not permute."""
    order = list(range(rank))
    if node.target is _aten.permute.default:
        return [dimension(dim, rank) for dim in arguments_of(node)["dims"]]
    if node.target is _aten.transpose.int:
        given = arguments_of(node)
        a, b = dimension(given["dim0"], rank), dimension(given["dim1"], rank)
        order[a], order[b] = b, a
        return order
    return order[::-1] if node.target is _aten.t.default else None


def _slice(translation: Translation, node: Node) -> ViewOp:
    given = arguments_of(node)
    return ViewOp(given["self"], "slice", slice_of(translation, given))


def slice_of(translation: Translation, given: dict[str, Any]) -> dict[str, Any]:
    """Return the slice of "self" that an op's arguments describe, as axis, min and max."""
    sizes = translation.tensor(given["self"]).shape
    axis = dimension(given["dim"], len(sizes))
    size = sizes[axis]
    if given["step"] != 1 or not isinstance(size, int):
        raise Fallback("a step other than 1, or a dynamic size")
    begin, end = (_place(given[name], size) for name in ("start", "end"))
    return {"axis": axis, "min": begin or 0, "max": size if end is None else end}


def _split_part(translation: Translation, node: Node) -> ViewOp:
    split: Any = node.args[0]
    if not isinstance(split, Node) or split.target not in SPLITS:
        raise Fallback("")
    given = arguments_of(split)
    axis = dimension(given["dim"], translation.tensor(given["self"]).dim())
    sizes = [each.shape[axis] for each in split.meta["val"]]
    index: Any = node.args[1]
    if any(not isinstance(size, int) for size in sizes):
        raise Fallback("dynamic size")
    places = {"min": sum(sizes[:index]), "max": sum(sizes[: index + 1])}
    return ViewOp(given["self"], "slice", {"axis": axis, **places}, (split,))


def _view_op(translation: Translation, node: Node) -> None:
    view = _VIEW_OPS[node.target](translation, node)
    if translation.is_constant(view.source):
        raise Fallback("")  # its readers take the weight itself
    translation.look_through(node, *view.looked_through)
    translation.begin([node], node)
    translation.op(view.kind, [translation.read(view.source)], node, **view.attributes)


VIEWS = (_aten.view.default, _aten._unsafe_view.default, _aten.reshape.default)
RESHAPES = (
    *VIEWS,
    _aten.alias.default,
    _aten.clone.default,
    _aten.unsqueeze.default,
    _aten.squeeze.dim,
    _aten.squeeze.dims,
)
"""Ops that keep the order of all elements."""
PERMUTES = (_aten.permute.default, _aten.transpose.int)
SPLITS = (_aten.split.Tensor, _aten.split_with_sizes.default)


def _place(value: Any, size: int) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int):
        raise Fallback("a dynamic index")
    return max(0, min(size, value + size if value < 0 else value))


CASTS = frozenset({torch.ops.prims.convert_element_type.default})
"""Ops that make a constant from a constant, with another dtype."""

VIEW_OPS = frozenset({"view", "permute", "slice"})
"""Kinds of ops that cpuaccel runs, not oneDNN Graph: csrc/plan/view_ops.h."""

_VIEW_OPS: dict[Any, Callable[[Translation, Node], ViewOp]] = {
    operator.getitem: _split_part,
    **dict.fromkeys(RESHAPES, _view),
    **dict.fromkeys(PERMUTES, _permute),
    _aten.slice.Tensor: _slice,
}

TRANSLATIONS = {_aten.cat.default: _cat, **dict.fromkeys(_VIEW_OPS, _view_op)}
