"""Makes torch.nn's transformer modules with masks traceable by torch.export.

Two of their decisions read the values of masks, which a trace does not have. Both are replaced here
so that one graph is valid for all values.
"""

from __future__ import annotations

import math
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.nn.modules import transformer

from cpuaccel._compat import CAUSAL_DETECTION, canonical_mask
from cpuaccel._encoder_padding import encode_without_nesting, may_nest


@contextmanager
def without_causal_detection() -> Iterator[None]:
    """Stop encoders and decoders from detecting causal masks: masks are applied like any other.

    `is_causal` is only a hint about the mask. torch.nn is patched for all threads meanwhile; other
    threads compute the same results, by the mask.
    """
    torchs = getattr(transformer, CAUSAL_DETECTION)
    setattr(
        transformer, CAUSAL_DETECTION, lambda mask, is_causal=None, size=None: is_causal is True
    )
    try:
        yield
    finally:
        setattr(transformer, CAUSAL_DETECTION, torchs)


def zero_padding(model: nn.Module) -> None:
    """Let encoders in `model`, which only the caller has, return zeros for padding as in eager.

    In eval mode, torch's encoder drops padding with nested tensors and returns zeros for it, if the
    padding is at the end of each sequence. torch.export traces another path, which computes the
    padding.
    """
    for module in model.modules():
        is_encoder = isinstance(module, nn.TransformerEncoder)
        if is_encoder and type(module).forward is nn.TransformerEncoder.forward:
            module.forward = types.MethodType(_encode, module)


def _encode(
    self: Any,
    src: Tensor,
    mask: Tensor | None = None,
    src_key_padding_mask: Tensor | None = None,
    is_causal: bool | None = None,
) -> Tensor:
    if mask is not None or not may_nest(self, src, src_key_padding_mask):
        found: Tensor = nn.TransformerEncoder.forward(
            self, src, mask, src_key_padding_mask, is_causal
        )
        return found
    padding: Any = canonical_mask(
        src_key_padding_mask, "src_key_padding_mask", None, "mask", src.dtype
    )
    dropped = _dropped(self, padding)
    return encode_without_nesting(self, src, padding, dropped, is_causal is True)


def _dropped(encoder: Any, padding: Tensor) -> Tensor:
    """Return which positions a nested tensor would drop; none if it would not be created."""
    masked = padding == -math.inf
    drops = (masked | (padding == 0)).all()  # cpuaccel._encoder_padding handles other values
    if getattr(encoder, "mask_check", True):
        drops = drops & (masked[:, 1:] | ~masked[:, :-1]).all()
    return masked & drops
