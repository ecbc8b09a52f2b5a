"""Translates convolutions of one to three dimensions, and folds the batch norm after them."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from cpuaccel.compile.bridge._arguments import (
    STATISTICS,
    bound,
    first_result,
    floats,
    numbers,
    only_user,
)
from cpuaccel.compile.bridge.plan_text import Value
from cpuaccel.compile.bridge.translation import Refused, Translation, value_of

_aten: Any = torch.ops.aten


def _convolution(translation: Translation, node: Node) -> None:
    given = bound(node)
    src, weight, bias = given["input"], given["weight"], given["bias"]
    floats(translation, *(each for each in (src, weight, bias) if each is not None))
    dims = translation.tensor(src).dim() - 2
    if dims not in (1, 2, 3):
        raise Refused("not a 1-D, 2-D or 3-D convolution")
    transposed = given["transposed"]
    attributes: dict[str, Any] = {
        "strides": numbers(given["stride"], dims),
        "pads_begin": numbers(given["padding"], dims),
        "pads_end": numbers(given["padding"], dims),
        "dilations": numbers(given["dilation"], dims),
        "groups": given["groups"],
        "data_format": "NCX",
        "weights_format": "IOX" if transposed else "OIX",
    }
    if transposed:
        attributes["output_padding"] = numbers(given["output_padding"], dims)
    norm = None if transposed else _norm_behind(translation, node)
    if norm is None:
        translation.begin([node], node)
        inputs = [translation.read(each) for each in (src, weight, bias) if each is not None]
        kind = "ConvTranspose" if transposed else "Convolution"
        translation.op(kind, inputs, node, **attributes)
        return
    behind, result = norm
    if not all(translation.is_constant(each) for each in (weight, bias) if each is not None):
        raise Refused("computed weights before a batch norm")
    of_norm = bound(behind)
    constants = [weight, *([bias] if bias is not None else [])]
    constants += [of_norm[name] for name in STATISTICS]
    translation.begin([node, behind, result], result)
    folded_like = value_of(translation.tensor(weight))
    folded = translation.prepare(
        "batch_norm",
        [translation.read(each) for each in constants],
        [folded_like, Value(folded_like.dtype, folded_like.sizes[:1])],
        epsilon=float(of_norm["eps"]),
    )
    translation.op("Convolution", [translation.read(src), *folded], result, **attributes)


def _norm_behind(translation: Translation, node: Node) -> tuple[Node, Node] | None:
    """Return the batch norm that is the only user of `node` and can be folded, and its result."""
    norm = only_user(node)
    if norm is None or norm.target is not _aten._native_batch_norm_legit_no_training.default:
        return None
    if norm.args[0] is not node:
        return None
    given = bound(norm)
    result = first_result(norm)
    if result is None or not all(translation.is_constant(given[name]) for name in STATISTICS):
        return None
    return norm, result


TRANSLATIONS = {_aten.convolution.default: _convolution}
