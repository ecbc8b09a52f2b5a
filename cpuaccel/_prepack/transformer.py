"""nn.TransformerEncoderLayer and nn.TransformerEncoder with packed submodules.

torch's classes have a fast path for inference that reads the weights of the submodules, all at
once, in one op. While those are packed, the fast path is off and the submodules are called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from cpuaccel._compat import canonical_mask, is_left_aligned
from cpuaccel._encoder_padding import encode_without_nesting, may_nest_in_call
from cpuaccel._prepack.conversion import packs, weights_of
from cpuaccel._prepack.module import PackedModule


def _parts(layer: Any) -> tuple[nn.Module, ...]:
    """Return the submodules of an encoder layer whose weights torch's fast path reads."""
    return layer.self_attn, layer.self_attn.out_proj, layer.linear1, layer.linear2


def _any_packed(layer: nn.Module) -> bool:
    return any(weights_of(module) for module in layer.modules())


@packs(nn.TransformerEncoderLayer)
class PackedTransformerEncoderLayer(PackedModule, nn.TransformerEncoderLayer):
    """nn.TransformerEncoderLayer that calls its submodules."""

    @classmethod
    def modules_read(cls, module: Any) -> Iterable[nn.Module]:
        return _parts(module)

    # torch's forward takes the fast path if this number names one of its activations.
    @property
    def activation_relu_or_gelu(self) -> int:
        number: int = self.__dict__["activation_relu_or_gelu"]
        return 0 if _any_packed(self) else number

    @activation_relu_or_gelu.setter
    def activation_relu_or_gelu(self, number: int) -> None:
        self.__dict__["activation_relu_or_gelu"] = number


@packs(nn.TransformerEncoder)
class PackedTransformerEncoder(PackedModule, nn.TransformerEncoder):
    """nn.TransformerEncoder that makes no nested tensors if its layers are packed."""

    @classmethod
    def modules_read(cls, module: Any) -> Iterable[nn.Module]:
        first = module.layers[0] if len(module.layers) else None
        return _parts(first) if isinstance(first, nn.TransformerEncoderLayer) else ()

    @property
    def use_nested_tensor(self) -> bool:
        wanted: bool = self.__dict__["use_nested_tensor"]
        return wanted and not _any_packed(self)

    @use_nested_tensor.setter
    def use_nested_tensor(self, wanted: bool) -> None:
        self.__dict__["use_nested_tensor"] = wanted

    def forward(
        self: Any,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        if not (_any_packed(self) and _nests(self, src, mask, src_key_padding_mask)):
            result: Tensor = nn.TransformerEncoder.forward(
                self, src, mask, src_key_padding_mask, is_causal
            )
            return result
        assert src_key_padding_mask is not None
        padding = canonical_mask(src_key_padding_mask, "src_key_padding_mask", None, "", src.dtype)
        return encode_without_nesting(self, src, padding, src_key_padding_mask)


def _nests(
    encoder: Any, src: Tensor, mask: Tensor | None, src_key_padding_mask: Tensor | None
) -> bool:
    """Return whether torch would use a nested tensor if the layers were plain."""
    if (
        not encoder.__dict__.get("use_nested_tensor")
        or src_key_padding_mask is None
        or src_key_padding_mask.dtype != torch.bool
        or mask is not None
        or not may_nest_in_call(encoder, src)
        or (torch.is_grad_enabled() and any(_learning(encoder.layers[0], src)))
    ):
        return False
    if getattr(encoder, "mask_check", True):
        left_aligned: bool = is_left_aligned(src, src_key_padding_mask.logical_not())
        return left_aligned
    return True


def _learning(layer: nn.Module, src: Tensor) -> Iterator[bool]:
    """Yield whether `src` and each parameter require gradients. Makes nothing plain."""
    yield src.requires_grad
    for module in layer.modules():
        yield from (weight.requires_grad for weight in weights_of(module).values())
        parameters = dict.values(module.__dict__["_parameters"])
        yield from (p.requires_grad for p in parameters if p is not None)
