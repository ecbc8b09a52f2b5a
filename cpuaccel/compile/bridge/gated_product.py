"""Translates a product by an activation: SwiGLU and GeGLU."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from cpuaccel.compile.bridge import intx_linear
from cpuaccel.compile.bridge._arguments import (
    STEP_DTYPES,
    common_float_dtype,
    only_user,
    other_operand,
    same_sizes,
)
from cpuaccel.compile.bridge.activations import activation_of
from cpuaccel.compile.bridge.shapes import VIEWS
from cpuaccel.compile.bridge.translation import Translation

_aten: Any = torch.ops.aten

KINDS = frozenset({"gated_product"})
"""Kinds of ops that cpuaccel runs: csrc/plan/gated_product_step.h."""

_MOST_DIMENSIONS = 3


def match(translation: Translation, activation: Node) -> bool:
    """Translate the product of which `activation` is a factor, if it is one."""
    product = only_user(activation)
    if product is None or product.target is not _aten.mul.Tensor:
        return False
    gate: Any = activation.args[0]
    up = other_operand(product, activation)
    if not isinstance(up, Node) or _multiplies_itself(up) or not _has_rows(product):
        return False
    sizes = [each.meta["val"].shape for each in (up, gate)]
    if not all(same_sizes(each, product.meta["val"].shape) for each in sizes):
        return False
    if common_float_dtype(translation, gate, up, product) not in STEP_DTYPES:
        return False
    translation.begin([activation, product], product)
    inputs = [translation.read(gate), translation.read(up)]
    function = activation_of(activation)
    assert function is not None
    translation.op("gated_product", inputs, product, function=function)
    return True


def _has_rows(product: Node) -> bool:
    """Say whether it is no image, whose layers oneDNN fuses with their activation."""
    dimensions: int = product.meta["val"].dim()
    return 1 <= dimensions <= _MOST_DIMENSIONS


def _multiplies_itself(up: Node) -> bool:
    """Say whether `up` is a layer whose kernel multiplies its results by an operand."""
    while up.target in VIEWS:
        up = up.all_input_nodes[0]
    return up.target in intx_linear.TRANSLATIONS


PATTERNS = {_aten.silu.default: match, _aten.gelu.default: match}
"""Functions that translate ops of which the key is a part. They say whether they did."""
