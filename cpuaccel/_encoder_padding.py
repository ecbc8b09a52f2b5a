"""A fix for nn.TransformerEncoder with a float padding mask.

In eval mode torch's encoder drops masked positions by nested tensors. It treats every nonzero value
of `src_key_padding_mask` as masked, also finite values, which are to be added to the scores. The
result is wrong, or an error. While cpuaccel is on, a mask with such values takes torch's path
without nested tensors.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from cpuaccel._modules import replacement_of

_torch_forward: Any = nn.TransformerEncoder.forward


def _with_check() -> Any:
    """Return torch's forward with this check before it."""
    cpuaccel_torch_forward = _torch_forward
    cpuaccel_has_additive_values, cpuaccel_zero_mask = _has_additive_values, _zero_mask

    def forward(
        self: Any,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Any:
        if mask is None and cpuaccel_has_additive_values(self, src, src_key_padding_mask):
            # With an attention mask the encoder makes no nested tensors; a mask of zeros changes
            # nothing.
            mask = cpuaccel_zero_mask(src)
        return cpuaccel_torch_forward(self, src, mask, src_key_padding_mask, is_causal)

    return replacement_of(_torch_forward, forward)


def _has_additive_values(encoder: Any, src: Tensor, padding: Tensor | None) -> bool:
    """Say whether `padding` has values to add that torch would treat as masked."""
    return (
        isinstance(padding, Tensor)
        and padding.is_floating_point()
        and not torch.compiler.is_compiling()
        and may_nest(encoder, src, padding)
        and not bool(((padding == 0) | (padding == -math.inf)).all())
    )


def _zero_mask(src: Tensor) -> Tensor:
    length = src.shape[1]
    return torch.zeros(length, length, dtype=src.dtype, device=src.device)


_checked_forward = _with_check()


def install() -> None:
    """Put the check before the forward of torch's class."""
    cls: Any = nn.TransformerEncoder
    if cls.forward is _torch_forward:
        cls.forward = _checked_forward


def uninstall() -> None:
    """Restore torch's forward."""
    cls: Any = nn.TransformerEncoder
    if cls.forward is _checked_forward:
        cls.forward = _torch_forward


def may_nest(encoder: Any, src: Tensor, padding: Tensor | None) -> bool:
    """Say whether torch's encoder makes nested tensors, if the values of `padding` allow it."""
    return bool(
        getattr(encoder, "use_nested_tensor", False)
        and padding is not None
        and padding.dim() == 2
        and may_nest_in_call(encoder, src)
    )


def may_nest_in_call(encoder: Any, src: Tensor) -> bool:
    """Say whether a call with `src` and padding allows nested tensors, if the encoder does."""
    return bool(
        torch.backends.mha.get_fastpath_enabled()
        and not encoder.layers[0].training
        and src.dim() == 3
        and not src.is_nested
        and not torch.is_autocast_enabled()
    )


def encode_without_nesting(
    encoder: Any, src: Tensor, padding: Any, dropped: Tensor, is_causal: bool = False
) -> Tensor:
    """Return what torch's encoder returns with nested tensors: zeros at `dropped` positions."""
    output = src
    for layer in encoder.layers:
        output = layer(output, src_key_padding_mask=padding, is_causal=is_causal)
    output = output.masked_fill(dropped.unsqueeze(-1), 0.0)
    return output if encoder.norm is None else encoder.norm(output)
