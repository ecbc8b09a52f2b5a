"""Translates select: one index of a dimension, which is removed."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from cpuaccel.compile.bridge._arguments import arguments_of, dimension
from cpuaccel.compile.bridge.plan_text import Value
from cpuaccel.compile.bridge.shapes import view_attributes
from cpuaccel.compile.bridge.translation import Fallback, Translation, value_of

_aten: Any = torch.ops.aten


def _select(translation: Translation, node: Node) -> None:
    given = arguments_of(node)
    source, index = given["self"], given["index"]
    if translation.is_constant(source):
        raise Fallback("")  # its readers take the weight itself
    sizes = translation.tensor(source).shape
    axis = dimension(given["dim"], len(sizes))
    if not isinstance(index, int) or (index < 0 and not isinstance(sizes[axis], int)):
        raise Fallback("a dynamic index, or an index from the end of a dynamic size")
    kept_sizes = (*sizes[:axis], 1, *sizes[axis + 1 :])
    view = view_attributes(kept_sizes, translation.tensor(node).shape)
    place = index if index >= 0 else index + sizes[axis]
    whole = value_of(translation.tensor(source))
    kept = Value(whole.dtype, (*whole.sizes[:axis], 1, *whole.sizes[axis + 1 :]))
    translation.begin([node], node)
    places: dict[str, Any] = {"axis": axis, "min": place, "max": place + 1}
    part = translation.op("slice", [translation.read(source)], like=kept, **places)
    translation.op("view", [part], node, **view)


TRANSLATIONS = {_aten.select.int: _select}
