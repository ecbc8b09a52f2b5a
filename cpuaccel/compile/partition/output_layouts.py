"""Chooses the memory layout of what a region returns: contiguous or channels_last."""

from __future__ import annotations

import math

from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from cpuaccel.compile.bridge import DECODER_STEPS, QUANTIZED_LAYERS
from cpuaccel.compile.bridge.translation import Translation

_ROW_KINDS = (
    {"MatMul", "LayerNorm", "SoftMax", "LogSoftmax", "attention"}
    | DECODER_STEPS
    | {kind for kind in QUANTIZED_LAYERS if "linear" in kind}
) - {"scale"}
"""Kinds of ops that compute rows: their columns are the last dimension."""
_IMAGE_KINDS = frozenset(
    {
        *("Convolution", "ConvTranspose", "q_conv", "BatchNormInference", "Interpolate"),
        *("MaxPool", "AvgPool", "permute", "StaticTranspose"),
    }
)
"""Kinds of ops that compute images from tensors of the same sizes, or move their channels."""


def is_channels_last(node: Node, translation: Translation) -> bool:
    """Say whether a result is channels_last: as in eager if the graph returns it, else if an image.

    Tensors that are not images in eager, such as the heads of attention, have a view's strides.
    """
    value = node.meta["val"]
    if value.dim() not in (4, 5) or any(map(_is_attention, node.users)):
        return False
    sizes, strides = value.shape, value.stride()
    channels_last = statically_known_true(strides[1] == 1)
    if any(user.op == "output" for user in node.users):
        return channels_last and not statically_known_true(strides[-1] == 1)
    contiguous = statically_known_true(strides[-1] == 1) and all(
        statically_known_true(strides[dim] == strides[dim + 1] * sizes[dim + 1])
        for dim in range(1, value.dim() - 1)
    )
    return channels_last or (contiguous and not _has_rows(node, translation))


def _is_attention(node: Node) -> bool:
    """Say whether `node` reads heads: those of a single token have the strides of images."""
    return "attention" in str(node.target)


def _has_rows(node: Node, translation: Translation) -> bool:
    """Say whether an op on rows computes `node`, and behind it only elementwise ops and views."""
    makers = {value: op for op in translation.operations for value in op.outputs}
    waiting, seen = [translation.numbers[node]], set()
    while waiting:
        value = waiting.pop()
        maker = makers.get(value)
        if maker is None or value in seen or maker.kind in _IMAGE_KINDS:
            continue
        seen.add(value)
        if maker.kind in _ROW_KINDS:
            return True
        count = math.prod(translation.values[value].sizes)
        waiting.extend(
            source
            for source in maker.inputs
            if math.prod(translation.values[source].sizes) == count
        )
    return False
