"""Translates quantized batch norms: a factor and an offset for each channel."""

from __future__ import annotations

from typing import Any

import torch

from cpuaccel.compile.bridge._arguments import BATCH_NORM_ARGUMENTS, arguments_of, producer_of
from cpuaccel.compile.bridge.plan_text import Value
from cpuaccel.compile.bridge.quantized.quantize_chain import Matches, QuantizeChain
from cpuaccel.compile.bridge.quantized.tensors import is_dequantize, quantizer_of, source_of
from cpuaccel.compile.bridge.translation import Translation

_aten: Any = torch.ops.aten


def batch_norm(translation: Translation, found: QuantizeChain) -> bool:
    """quantize(relu(batch_norm(dequantize(x))))"""
    result = found.anchor
    node = producer_of(result, _aten._native_batch_norm_legit_no_training.default)
    if node is None:
        return False
    given = arguments_of(node)
    src = given["input"]
    statistics = [given[name] for name in BATCH_NORM_ARGUMENTS]
    if not is_dequantize(src) or not all(translation.is_constant(each) for each in statistics):
        return False
    relu = found.is_relu()
    if found.functions and not relu:
        return False
    before, after = quantizer_of(src), found.quantizer
    translation.look_through(node, src)
    translation.begin([node, result, *found.nodes], found.quantize)
    channels = Value(torch.float32, tuple(statistics[0].meta["val"].shape))
    factors = translation.prepare(
        "channel_affine",
        [translation.read(each) for each in statistics],
        [channels, channels],
        epsilon=float(given["eps"]),
        src_scale=before.scale,
        dst_scale=after.scale,
    )
    translation.op(
        "q_batch_norm",
        [translation.read(source_of(src)), *factors],
        found.quantize,
        **before.attributes("src"),
        **after.attributes("dst"),
        relu=relu,
    )
    translation.end()
    return True


MATCHES: Matches = {batch_norm: ("q_batch_norm",)}
