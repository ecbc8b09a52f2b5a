"""cpuaccel::resize: torch.nn.functional.interpolate of images as one op in a graph.

torch decomposes its own ops before any graph pass sees them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cpuaccel._ops.derivatives import differentiable

_aten: Any = torch.ops.aten
_torch: Any = torch  # Any: torch's annotations lack names that are used here

MODES = ("nearest", "bilinear")

_torch.library.define(
    "cpuaccel::resize",
    "(Tensor images, SymInt[]? size, float[]? scales, str mode, bool align_corners) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)


def resize(
    images: Tensor,
    size: Sequence[int] | None,
    scales: Sequence[float] | None,
    mode: str,
    align_corners: bool,
) -> Tensor:
    """Resize with torch's own ops."""
    result: Tensor
    if mode == "nearest":
        result = _aten.upsample_nearest2d.vec(images, size, scales)
    else:
        result = _aten.upsample_bilinear2d.vec(images, size, align_corners, scales)
    return result


_torch.library.impl("cpuaccel::resize", "CompositeExplicitAutograd")(resize)
_torch.library.register_fake("cpuaccel::resize")(resize)
differentiable(resize)
