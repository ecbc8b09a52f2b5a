"""Translates max and average pooling, and means over whole images, which are average pools."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from cpuaccel.compile.bridge._arguments import (
    arguments_of,
    common_float_dtype,
    first_result,
    image_sizes,
    int_list,
)
from cpuaccel.compile.bridge.plan_text import Value
from cpuaccel.compile.bridge.shapes import view_attributes
from cpuaccel.compile.bridge.translation import Fallback, Translation, value_of

_aten: Any = torch.ops.aten

_WHOLE = 0
"""Window size that stands for the whole image, of any size: csrc/plan/global_pooling.h."""


def _max_pool(translation: Translation, node: Node) -> None:
    given = arguments_of(node)
    result = first_result(node)
    if result is None:
        raise Fallback("the indices are used")
    src = given["self"]
    common_float_dtype(translation, src)
    dims = len(given["kernel_size"])
    attributes = _window(translation, given, dims)
    attributes["dilations"] = int_list(given["dilation"], dims)
    translation.begin([node, result], result)
    translation.op("MaxPool", [translation.read(src)], result, **attributes)


def _avg_pool(translation: Translation, node: Node) -> None:
    given = arguments_of(node)
    if given["divisor_override"] is not None:
        raise Fallback("divisor_override")
    src = given["self"]
    common_float_dtype(translation, src)
    attributes = _window(translation, given, len(given["kernel_size"]))
    # torch counts the explicit padding, but not what rounding up (ceil_mode) adds.
    if given["ceil_mode"] and given["count_include_pad"]:
        raise Fallback("ceil_mode with count_include_pad")
    attributes["exclude_pad"] = not given["count_include_pad"]
    translation.begin([node], node)
    translation.op("AvgPool", [translation.read(src)], node, **attributes)


def _window(translation: Translation, given: dict[str, Any], dims: int) -> dict[str, Any]:
    kernel = int_list(given["kernel_size"], dims)
    strides = int_list(given["stride"], dims) if given["stride"] else kernel
    padding = int_list(given["padding"], dims)
    # torch drops a window that starts after the image, oneDNN does not. If sizes are known, that
    # shows when the partition is tried.
    starts_behind = any(
        pad + stride > size for size, stride, pad in zip(kernel, strides, padding, strict=True)
    )
    if given["ceil_mode"] and starts_behind:
        image_sizes(translation, given["self"])
    return {
        "kernel": kernel,
        "strides": strides,
        "pads_begin": padding,
        "pads_end": padding,
        "rounding_type": "ceil" if given["ceil_mode"] else "floor",
        "data_format": "NCX",
    }


def _adaptive_avg_pool(translation: Translation, node: Node) -> None:
    given = arguments_of(node)
    src = given["self"]
    image = image_sizes(translation, src)[-2:]
    target = int_list(given["output_size"], 2)
    if any(size % to for size, to in zip(image, target, strict=True)):
        raise Fallback("adaptive windows of different sizes")
    kernel = [size // to for size, to in zip(image, target, strict=True)]
    _average(translation, node, src, kernel, node)


def mean_of_images(translation: Translation, node: Node) -> None:
    """Translate aten.mean.dim over all pixels of an image."""
    given = arguments_of(node)
    src = given["self"]
    if not is_mean_of_images(translation, given):
        raise Fallback("a mean over dimensions other than an image's pixels")
    common_float_dtype(translation, src)
    channels, *sizes = translation.tensor(src).shape[1:]
    if not isinstance(channels, int):
        raise Fallback("dynamic size")
    is_fixed = all(isinstance(size, int) for size in sizes)
    kernel = sizes if is_fixed else [_WHOLE] * len(sizes)
    _average(translation, node, src, kernel, node if given["keepdim"] else None)


def is_mean_of_images(translation: Translation, given: dict[str, Any]) -> bool:
    """Say whether arguments of aten.mean.dim are those of a mean over all pixels of an image."""
    rank = translation.tensor(given["self"]).dim()
    dims = sorted(dim % rank for dim in given["dim"] or range(rank))
    return given["dtype"] is None and rank > 2 and dims == list(range(2, rank))


def _average(
    translation: Translation, node: Node, src: Any, kernel: list[int], to: Node | None
) -> None:
    dtype = common_float_dtype(translation, src)
    sizes = translation.tensor(src).shape[2:]
    pooled = [
        1 if window == _WHOLE else size // window
        for size, window in zip(sizes, kernel, strict=True)
    ]
    attributes: dict[str, Any] = {
        "kernel": kernel,
        "strides": kernel,
        "pads_begin": [0] * len(kernel),
        "pads_end": [0] * len(kernel),
        "exclude_pad": False,
        "rounding_type": "floor",
        "data_format": "NCX",
    }
    translation.begin([node], node)
    x = translation.read(src)
    if to is not None:
        translation.op("AvgPool", [x], to, **attributes)
        return
    source = translation.tensor(src)
    like = Value(dtype, (*value_of(source).sizes[:2], *pooled))
    image_means = translation.op("AvgPool", [x], like=like, **attributes)
    view = view_attributes((*source.shape[:2], *pooled), translation.tensor(node).shape)
    translation.op("view", [image_means], node, **view)


TRANSLATIONS = {
    _aten.max_pool2d_with_indices.default: _max_pool,
    _aten.max_pool3d_with_indices.default: _max_pool,
    _aten.avg_pool2d.default: _avg_pool,
    _aten.avg_pool3d.default: _avg_pool,
    _aten._adaptive_avg_pool2d.default: _adaptive_avg_pool,
    _aten.mean.dim: mean_of_images,
}
