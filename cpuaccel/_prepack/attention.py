"""nn.MultiheadAttention with packed projections."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cpuaccel._compat import canonical_mask, none_or_dtype
from cpuaccel._prepack.conversion import make_plain, packs, plain_call_reason, weights_of
from cpuaccel._prepack.linear import run_linear
from cpuaccel._prepack.matrix import Matrix
from cpuaccel._prepack.module import PackedModule
from cpuaccel._prepack.weight import Form

_SEPARATE_PROJECTIONS = ("q_proj_weight", "k_proj_weight", "v_proj_weight")


@packs(nn.MultiheadAttention)
class PackedMultiheadAttention(PackedModule, nn.MultiheadAttention):
    """nn.MultiheadAttention whose input projections are packed, each one separately."""

    @classmethod
    def forms_to_pack(cls, module: Any) -> dict[str, Form] | str:
        if module.bias_k is not None or module.bias_v is not None or module.add_zero_attn:
            return "bias_k, bias_v or add_zero_attn is set"
        E = module.embed_dim
        if not module._qkv_same_embed_dim:
            return dict.fromkeys(_SEPARATE_PROJECTIONS, Matrix((E,)))
        return {"in_proj_weight": Matrix((E, E, E))}

    @classmethod
    def modules_read(cls, module: Any) -> Iterable[nn.Module]:
        return (module.out_proj,)

    def forward(
        self: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> Any:
        weights = weights_of(self)
        reason = weights and (
            plain_call_reason(self, weights.values(), (query, key, value))
            or _plain_call_reason(self, query, key, value, key_padding_mask, attn_mask, is_causal)
        )
        if not weights or reason:
            make_plain(self, reason or "")
            return nn.MultiheadAttention.forward(
                self,
                query,
                key,
                value,
                key_padding_mask,
                need_weights,
                attn_mask,
                average_attn_weights,
                is_causal,
            )
        causal = is_causal and key_padding_mask is None and not need_weights
        mask = None
        if not causal:
            mask = _mask(self, query, key, key_padding_mask, attn_mask)
        q, k, v = (
            _heads(self, projected)
            for projected in _project(weights, self.in_proj_bias, query, key, value)
        )
        dropout = self.dropout if self.training else 0.0
        attention = None
        if need_weights:
            attention = (q * math.sqrt(1.0 / q.shape[-1])) @ k.transpose(-2, -1)
            if mask is not None:
                attention = attention + mask
            attention = F.dropout(attention.softmax(-1), dropout, self.training)
            result = attention @ v
            if average_attn_weights:
                attention = attention.mean(1)
        else:
            result = F.scaled_dot_product_attention(q, k, v, mask, dropout, causal)
        order = (0, 2, 1, 3) if self.batch_first else (2, 0, 1, 3)
        result = run_linear(self.out_proj, result.permute(order).flatten(2))
        return result, attention


def _project(
    weights: dict[str, Any], bias: Tensor | None, query: Tensor, key: Tensor, value: Tensor
) -> list[Tensor]:
    biases = bias.chunk(3) if bias is not None else (None, None, None)
    inputs = (query, key, value)
    if together := weights.get("in_proj_weight"):
        return [together.linear(inputs[i], biases[i], i) for i in range(3)]
    return [
        weights[name].linear(inputs[i], biases[i]) for i, name in enumerate(_SEPARATE_PROJECTIONS)
    ]


def _heads(module: Any, x: Tensor) -> Tensor:
    """Return a projection as (batch, heads, length, width)."""
    heads = torch.unflatten(x, -1, (module.num_heads, -1))
    return heads.transpose(1, 2) if module.batch_first else heads.permute(1, 2, 0, 3)


def _sizes(module: Any, query: Tensor, key: Tensor) -> tuple[int, int, int]:
    """Return the batch size, the length of the queries and the length of the keys."""
    length, batch = (1, 0) if module.batch_first else (0, 1)
    return query.shape[batch], query.shape[length], key.shape[length]


def _mask(
    module: Any,
    query: Tensor,
    key: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
) -> Tensor | None:
    """Return the mask that is added to the products of queries and keys; it broadcasts to them."""
    batch, L, S = _sizes(module, query, key)
    padding: Tensor | None = canonical_mask(
        key_padding_mask, "key_padding_mask", none_or_dtype(attn_mask), "attn_mask", query.dtype
    )
    mask: Tensor | None = canonical_mask(
        attn_mask, "attn_mask", None, "", query.dtype, check_other=False
    )
    if mask is not None and mask.dim() == 3:
        mask = mask.view(batch, module.num_heads, L, S)
    if padding is None:
        return mask
    padding = padding.view(batch, 1, 1, S)
    return padding if mask is None else mask + padding


def _plain_call_reason(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    is_causal: bool,
) -> str:
    """Return the reason why torch has to run or reject a call, or ""."""
    if any(torch.overrides.has_torch_function((x,)) for x in (query, key, value)):
        return "an input is a tensor subclass"
    sizes = ((query, module.embed_dim), (key, module.kdim), (value, module.vdim))
    if any(x.dim() != 3 or x.shape[-1] != size for x, size in sizes):
        return "an input has other than 3 dimensions or another feature size"
    batch, L, S = _sizes(module, query, key)
    if key.shape[:2] != value.shape[:2] or key.shape[1 - module.batch_first] != batch:
        return "query, key and value have different batch sizes or lengths"
    if any(x.dtype != query.dtype for x in (key, value)):
        return "query, key and value have different dtypes"
    masks = ((L, S), (batch * module.num_heads, L, S))
    if attn_mask is not None and tuple(attn_mask.shape) not in masks:
        return "attn_mask has another shape"
    if key_padding_mask is not None and tuple(key_padding_mask.shape) != (batch, S):
        return "key_padding_mask has another shape"
    if is_causal and attn_mask is None:
        return "is_causal without attn_mask"
    return ""
