"""Translates quantized channel shuffles whose result is sliced by channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from cpuaccel.compile.bridge._arguments import arguments_of, dimension, only_user
from cpuaccel.compile.bridge.quantized.quantize_chain import Matches, QuantizeChain
from cpuaccel.compile.bridge.quantized.tensors import quantizer_of, source_of
from cpuaccel.compile.bridge.quantized.view_ops import quantized_view_op
from cpuaccel.compile.bridge.shapes import VIEWS
from cpuaccel.compile.bridge.translation import Translation

_aten: Any = torch.ops.aten
_IMAGES, _APART = 4, 5


@dataclass(frozen=True)
class _Shuffle:
    """A view to groups, a swap of groups and channels, and a view back, of concatenated `parts`."""

    nodes: tuple[Node, ...]
    parts: list[Node]
    groups: int


def sliced_shuffle(translation: Translation, found: QuantizeChain) -> bool:
    """quantize(function(slice of dequantize(shuffle(x))))"""
    view = quantized_view_op(translation, found.anchor)
    if view is None or view.kind != "slice" or view.attributes["axis"] != 1:
        return False
    shuffle = _shuffle(translation, source_of(view.source))
    if shuffle is None:
        return False
    places = {name: view.attributes[name] for name in ("min", "max")}
    if any(place % shuffle.groups for place in places.values()):
        return False
    entries = found.table(quantizer_of(view.source))
    table = {} if entries == list(range(len(entries))) else {"table": entries}
    translation.look_through(found.anchor, view.source, *view.looked_through, *shuffle.nodes)
    translation.begin([found.anchor, *found.nodes], found.quantize)
    inputs = [translation.read(part) for part in shuffle.parts]
    given: dict[str, Any] = {"groups": shuffle.groups, **places, **table}
    translation.op("q_shuffle", inputs, found.quantize, **given)
    translation.end()
    return True


def _shuffle(translation: Translation, result: Node) -> _Shuffle | None:
    nodes = [result]
    apart: Any = result.args[0] if result.target in VIEWS else None
    if isinstance(apart, Node) and apart.target is _aten.clone.default:
        nodes.append(apart)
        apart = apart.args[0]
    if not isinstance(apart, Node) or not _exchanges(apart):
        return None
    view: Any = apart.args[0]
    if view.target not in VIEWS or translation.tensor(view).dim() != _APART:
        return None
    x: Any = view.args[0]
    sizes = list(translation.tensor(view).shape)
    before, after = translation.tensor(x), translation.tensor(result)
    whole = [sizes[0], sizes[1] * sizes[2], *sizes[3:]]
    if before.dim() != _IMAGES or list(before.shape) != whole or list(after.shape) != whole:
        return None
    if before.dtype != torch.uint8 or not isinstance(sizes[1], int):
        return None
    nodes += [apart, view]
    joined = _parts(translation, x, sizes[1])
    return _Shuffle((*nodes, *([x] if joined else [])), joined or [x], sizes[1])


def _exchanges(node: Node) -> bool:
    """Say whether a node swaps dimensions 1 and 2 of five."""
    if node.target is _aten.transpose.int:
        return {dimension(int(str(dim)), _APART) for dim in node.args[1:]} == {1, 2}
    if node.target is _aten.permute.default:
        order: Any = node.args[1]
        return [dim % _APART for dim in order] == [0, 2, 1, 3, 4]
    return False


def _parts(translation: Translation, x: Node, groups: int) -> list[Node] | None:
    """Return the operands of the concatenation that makes x, if each operand is one group."""
    if x.target is not _aten.cat.default or only_user(x) is None:
        return None
    given = arguments_of(x)
    parts: list[Node] = list(given["tensors"])
    shapes = {tuple(translation.tensor(part).shape) for part in parts}
    if dimension(given["dim"], _IMAGES) != 1 or len(parts) != groups or len(shapes) != 1:
        return None
    return parts


MATCHES: Matches = {sliced_shuffle: ("q_shuffle",)}
