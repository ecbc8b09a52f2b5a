"""Translates convolutions of one to three dimensions, and folds the batch norm after them."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from cpuaccel.compile.bridge._arguments import (
    BATCH_NORM_ARGUMENTS,
    arguments_of,
    common_float_dtype,
    first_result,
    int_list,
    only_user,
)
from cpuaccel.compile.bridge.plan_text import Value
from cpuaccel.compile.bridge.translation import Fallback, Translation, value_of

_aten: Any = torch.ops.aten


def _convolution(translation: Translation, node: Node) -> None:
    given = arguments_of(node)
    src, weight, bias = given["input"], given["weight"], given["bias"]
    common_float_dtype(translation, *(each for each in (src, weight, bias) if each is not None))
    dims = translation.tensor(src).dim() - 2
    if dims not in (1, 2, 3):
        raise Fallback("not a 1-D, 2-D or 3-D convolution")
    transposed = given["transposed"]
    attributes: dict[str, Any] = {
        "strides": int_list(given["stride"], dims),
        "pads_begin": int_list(given["padding"], dims),
        "pads_end": int_list(given["padding"], dims),
        "dilations": int_list(given["dilation"], dims),
        "groups": given["groups"],
        "data_format": "NCX",
        "weights_format": "IOX" if transposed else "OIX",
    }
    if transposed:
        attributes["output_padding"] = int_list(given["output_padding"], dims)
    norm = None if transposed else _norm_behind(translation, node)
    if norm is None:
        translation.begin([node], node)
        inputs = [translation.read(each) for each in (src, weight, bias) if each is not None]
        kind = "ConvTranspose" if transposed else "Convolution"
        translation.op(kind, inputs, node, **attributes)
        return
    behind, result = norm
    if not all(translation.is_constant(each) for each in (weight, bias) if each is not None):
        raise Fallback("computed weights before a batch norm")
    of_norm = arguments_of(behind)
    constants = [weight, *([bias] if bias is not None else [])]
    constants += [of_norm[name] for name in BATCH_NORM_ARGUMENTS]
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
    given = arguments_of(norm)
    result = first_result(norm)
    if result is None or not all(
        translation.is_constant(given[name]) for name in BATCH_NORM_ARGUMENTS
    ):
        return None
    return norm, result


TRANSLATIONS = {_aten.convolution.default: _convolution}
