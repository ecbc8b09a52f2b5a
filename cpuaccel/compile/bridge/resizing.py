"""Translates image resizing (interpolate, upsample) where oneDNN computes what torch does.

oneDNN takes pixels for areas: position o of the result is position (o + 1/2) * I / O - 1/2 of the
source, where I and O are the sizes of source and result. That is torch's bilinear mode with
align_corners=False. It is also torch's nearest mode if sizes grow by integer factors, because each
pixel is repeated that many times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from cpuaccel._ops import resize as _resize_op  # noqa: F401  cpuaccel::resize
from cpuaccel.compile.bridge._arguments import arguments_of, common_float_dtype
from cpuaccel.compile.bridge.translation import Fallback, Translation

_aten: Any = torch.ops.aten


def _resize(translation: Translation, node: Node) -> None:
    given = arguments_of(node)
    _translate(translation, node, given["images"], given["mode"], given)


def _nearest(translation: Translation, node: Node) -> None:
    given = arguments_of(node)
    of = {"size": given["output_size"], "scales": given["scale_factors"], "align_corners": False}
    _translate(translation, node, given["input"], "nearest", of)


def _bilinear(translation: Translation, node: Node) -> None:
    given = arguments_of(node)
    of = {**given, "size": given["output_size"], "scales": given["scale_factors"]}
    _translate(translation, node, given["input"], "bilinear", of)


def _translate(
    translation: Translation, node: Node, images: Any, mode: str, given: dict[str, Any]
) -> None:
    common_float_dtype(translation, images)
    if given["align_corners"]:
        raise Fallback("align_corners: oneDNN lacks it")
    before = translation.tensor(images).shape[2:]
    after = translation.tensor(node).shape[2:]
    attributes: dict[str, Any]
    if given["scales"] is not None and all(scale == int(scale) for scale in given["scales"]):
        attributes = {"scales": [float(scale) for scale in given["scales"]]}
    else:
        resampled = mode == "bilinear" and given["scales"] is None  # from any size to any size
        needed = after if resampled else (*before, *after)
        if not all(isinstance(size, int) for size in needed):
            raise Fallback("dynamic size")
        if not resampled:
            _check(mode, before, after, given["scales"])
        attributes = {"sizes": list(after)}
    translation.begin([node], node)
    translation.op(
        "Interpolate", [translation.read(images)], node, mode=mode, data_format="NCX", **attributes
    )


def _check(
    mode: str, before: Sequence[int], after: Sequence[int], scales: Sequence[float] | None
) -> None:
    for index, (source, size) in enumerate(zip(before, after, strict=True)):
        if mode == "nearest" and size % source:
            raise Fallback(
                "nearest mode by a factor that is not an integer: oneDNN takes other pixels"
            )
        if scales is not None and source * scales[index] != size:
            raise Fallback("a scale other than the ratio of the sizes")


TRANSLATIONS = {
    torch.ops.cpuaccel.resize.default: _resize,
    _aten.upsample_nearest2d.vec: _nearest,
    _aten.upsample_bilinear2d.vec: _bilinear,
}
