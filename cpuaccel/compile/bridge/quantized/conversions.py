"""Translates quantize and dequantize around ops that are computed in float."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.fx import Graph, Node

from cpuaccel.compile.bridge.quantized.tensors import (
    CHOOSE,
    DEQUANTIZE,
    DEQUANTIZE_CHANNELS,
    QUANTIZE,
    is_dequantize,
    is_quantize,
    quantizer_of,
    source_of,
)
from cpuaccel.compile.bridge.translation import Fallback, Translation, value_of

_NOT_HERE = "a quantizer other than uint8 from 0 to 255 with a constant scale"


def _quantize(translation: Translation, node: Node) -> None:
    if not is_quantize(node):
        raise Fallback(_NOT_HERE)
    translation.begin([node], node)
    x = translation.read(source_of(node))
    translation.op("quantize", [x], node, **quantizer_of(node).attributes("to"))


def _dequantize(translation: Translation, node: Node) -> None:
    if translation.is_constant(node) or _all_look_through(translation, node):
        raise Fallback("")
    if not is_dequantize(node):
        raise Fallback(_NOT_HERE)
    translation.begin([node], node)
    x = translation.read(source_of(node))
    translation.op("dequantize", [x], node, **quantizer_of(node).attributes("from"))


def _all_look_through(translation: Translation, node: Node) -> bool:
    return all((user, node) in translation.looked_through for user in node.users)


def dequantize_weights_once(graph: Graph, translation: Translation) -> None:
    """Dequantize once, not in each call, weights that are read as floats."""
    for node in graph.find_nodes(op="call_function", target=DEQUANTIZE_CHANNELS):
        scales, zero_points = node.args[1:3]
        constants = (source_of(node), scales, zero_points)
        if _all_look_through(translation, node) or not all(
            translation.is_constant(each) for each in constants
        ):
            continue
        (number,) = translation.prepare(
            "dequantize",
            [translation.read_constant(each) for each in constants],
            [value_of(translation.tensor(node))],
            axis=node.args[3],
        )
        translation.name_constant(node, number)


def _choose(
    x: Tensor, lowest: int, highest: int, epsilon: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Inductor's choose_qparams, without its tensor made from `epsilon`, which cannot be traced."""
    smallest = x.amin()
    scale = ((x.amax() - smallest) / float(highest - lowest)).clamp_min(epsilon)
    zero_point = lowest - torch.round(smallest / scale).to(torch.int)
    return scale.to(torch.float64), zero_point.clamp(lowest, highest).to(torch.int64)


DECOMPOSITIONS = {CHOOSE: _choose}
"""Decomposition of choose_qparams where no layer takes it."""

TRANSLATIONS = {QUANTIZE: _quantize, DEQUANTIZE: _dequantize}
