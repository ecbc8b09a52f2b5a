"""Translates ATen ops to ops of oneDNN Graph, with a file for each kind of op.

`TRANSLATIONS` has a function for each ATen op that can be translated. The function gets the
translation so far and a node. It adds the ops that compute the node, or raises `Refused` with the
reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.fx import Node

from cpuaccel.compile.bridge import (
    attention,
    convolution,
    elementwise,
    matmul,
    normalization,
    pooling,
    quantized,
    reduction,
    resizing,
    selection,
    shapes,
    writes,
)
from cpuaccel.compile.bridge.translation import Translation

MOVES = shapes.MOVES
WRITES = writes.WRITES
OWN = MOVES | WRITES | attention.KINDS | quantized.OPS
"""Kinds of ops that cpuaccel runs, not oneDNN Graph."""
QUANTIZED = quantized.OPS
QUANTIZED_LAYERS = quantized.LAYERS
CASTS = shapes.CASTS
TAKEN_APART = quantized.TAKEN_APART
claim = quantized.claim
make_constants = quantized.make_constants
say_parts = writes.say_parts

Translate = Callable[[Translation, Node], None]

TRANSLATIONS: dict[Any, Translate] = {
    **convolution.TRANSLATIONS,
    **matmul.TRANSLATIONS,
    **attention.TRANSLATIONS,
    **elementwise.TRANSLATIONS,
    **normalization.TRANSLATIONS,
    **pooling.TRANSLATIONS,
    **quantized.TRANSLATIONS,
    **reduction.TRANSLATIONS,
    **resizing.TRANSLATIONS,
    **selection.TRANSLATIONS,
    **shapes.TRANSLATIONS,
    **writes.TRANSLATIONS,
}
