"""Which attention functions of transformers cpuaccel's kernel computes.

Most models have an eager attention function of their own, all of one kind: products, a soft cap,
masks, sinks, softmax. Whether a function is of that kind is tried, not read.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cpuaccel import _transformers_names

_PLAIN = frozenset({"scaling", "sliding_window", "is_causal"})
_SOFT_CAP, _SINKS = "softcap", "s_aux"

_TOKENS, _KEYS = 3, 7
_BOUND = 2e-4
"""Largest difference from the reference, of results whose size is about 1."""


class Heads(NamedTuple):
    """The sizes of an attention: heads of queries, heads of keys, a head's width; their dtype."""

    queries: int
    keys: int
    width: int
    dtype: torch.dtype


class Kernel(NamedTuple):
    """What cpuaccel's kernel is told."""

    scale: float | None
    """None: 1 / sqrt(head width)."""
    soft_cap: float
    """0: none."""
    sinks: Tensor | None


def heads_of(query: Tensor, key: Tensor, value: Tensor) -> Heads | None:
    """Return the sizes of an attention; None if the kernel does not take them."""
    if key.shape != value.shape or query.shape[3] != key.shape[3] or query.shape[1] % key.shape[1]:
        return None
    return Heads(query.shape[1], key.shape[1], key.shape[3], key.dtype)


def is_sdpa(attend: Any) -> bool:
    """Say whether an attention function is the one of transformers that calls torch's SDPA."""
    return attend is _transformers_names.sdpa_attention_forward


def kernel_of(
    module: Any, attend: Any, options: Mapping[str, Any], heads: Heads | None
) -> Kernel | None:
    """Return what the kernel has to compute in the place of `attend`; None if it cannot."""
    known = _PLAIN if is_sdpa(attend) else _PLAIN | {_SOFT_CAP, _SINKS}
    if any(isinstance(each, Tensor) or each for name, each in options.items() if name not in known):
        return None
    scale, cap, sinks = (options.get(name) for name in ("scaling", _SOFT_CAP, _SINKS))
    if not isinstance(scale, (float, int, type(None))) or not isinstance(
        cap, (float, int, type(None))
    ):
        return None
    found = Kernel(scale, float(cap or 0), sinks)
    if is_sdpa(attend):
        return found
    # Other callables, such as T5's with a bias by position, know the call that they are in.
    if not inspect.isfunction(attend):
        return None
    if heads is None or (
        sinks is not None and (not isinstance(sinks, Tensor) or sinks.shape != (heads.queries,))
    ):
        return None
    return found if _computes(found, module, attend, options, heads) else None


def _computes(
    kernel: Kernel, module: Any, attend: Any, options: Mapping[str, Any], heads: Heads
) -> bool:
    """Say whether an attention function returns, for some numbers, what the kernel computes."""
    width = heads.width
    scale = kernel.scale or 1 / math.sqrt(width)
    random = torch.Generator().manual_seed(0)

    def numbers(*sizes: int) -> Tensor:
        return torch.randn(sizes, generator=random)

    query, value = numbers(1, heads.queries, _TOKENS, width), numbers(1, heads.keys, _KEYS, width)
    key = numbers(1, heads.keys, _KEYS, width)
    seen = torch.ones(_TOKENS, _KEYS, dtype=torch.bool).tril(_KEYS - _TOKENS)
    mask = torch.zeros(seen.shape).masked_fill_(~seen, torch.finfo(torch.float32).min)
    mask = mask + numbers(*seen.shape)
    # Scores of about 1, and scores near the cap whose differences are about 1.
    near = 0.8 * (kernel.soft_cap or 4.0)
    alike = numbers(1, heads.keys, 1, width)
    alike = alike + key / near
    towards = alike[:, :, :1].repeat_interleave(heads.queries // heads.keys, 1).expand_as(query)
    large = towards * (near / (towards.square().sum(-1, keepdim=True) * scale))
    for q, k in ((query / (scale * width**0.5), key), (large, alike)):
        expected = _reference(kernel, scale, (q, k, value), mask)
        try:
            with torch.no_grad():
                found = attend(module, q, k, value, mask[None, None], **options)[0]
        except Exception:  # a function may demand anything
            return False
        if not isinstance(found, Tensor) or found.shape != expected.shape:
            return False
        if not bool(((found - expected).abs() <= _BOUND).all()):
            return False
    return True


def _reference(
    kernel: Kernel, scale: float, of: tuple[Tensor, Tensor, Tensor], mask: Tensor
) -> Tensor:
    """Return N x tokens x heads x width, computed in float64."""
    query, key, value = (each.double() for each in of)
    group = query.shape[1] // key.shape[1]
    key, value = (each.repeat_interleave(group, 1) for each in (key, value))
    scores = scale * query @ key.transpose(2, 3)
    if kernel.soft_cap:
        scores = kernel.soft_cap * torch.tanh(scores / kernel.soft_cap)
    scores = scores + mask
    if kernel.sinks is not None:
        sinks = kernel.sinks.detach().double()[None, :, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, sinks], -1)
    weights = scores.softmax(-1)[..., : key.shape[2]]
    return (weights @ value).transpose(1, 2)
