"""Input signatures: the dtypes, shapes, strides and values that calls of one capture share."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor

from cpuaccel._compat import tree_flatten, tree_leaves
from cpuaccel.compile.common.pytree_leaves import named_leaves

_SHOWN = 8


def signature_key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
    """Return the cache key of an input signature; None if nothing is captured for such inputs."""
    if not kwargs and all(type(each) is Tensor for each in args):
        # A fast path for plain tensors.
        plain: list[Any] = []
        for each in args:
            if each.layout is not torch.strided or not each.is_cpu:
                return None
            plain += (each.shape, each.stride(), each.dtype)
        return (*plain, torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"))
    leaves, spec = tree_flatten((args, kwargs))
    parts: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            if leaf.layout is not torch.strided or leaf.device.type != "cpu":
                return None
            parts.append((type(leaf), leaf.shape, leaf.stride(), leaf.dtype))
        elif isinstance(leaf, float) and leaf != leaf:
            parts.append("nan")
        else:
            parts.append((type(leaf), leaf))  # 1, 1.0 and True are equal
    key = (
        spec,
        tuple(parts),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
    )
    try:
        hash(key)
    except TypeError:
        return None
    return key


def family_key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Hashable, str]:
    """Return the key that calls share if they differ in tensor sizes only; None without a hash.

    The second value is the reason why their sizes cannot be symbols, or "".
    """
    reason = ""
    leaves, spec = tree_flatten((args, kwargs))
    parts: list[Any] = []
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            parts.append((type(leaf), leaf))
            continue
        layout = _layout_of(leaf)
        if type(leaf) is not Tensor:
            reason = f"an input is a {type(leaf).__name__}"
        elif not any(layout):
            reason = "an input is neither contiguous nor channels_last"
        parts.append((type(leaf), leaf.dim(), leaf.dtype, layout))
    key = (spec, tuple(parts), torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"))
    try:
        hash(key)
    except TypeError:
        return None, reason
    return key, reason


_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


def _layout_of(tensor: Tensor) -> tuple[bool, bool]:
    """Return whether a tensor is contiguous, and whether it is channels_last."""
    memory_format = _FORMATS.get(tensor.dim())
    is_last = memory_format is not None and tensor.is_contiguous(memory_format=memory_format)
    return tensor.is_contiguous(), is_last


def unsupported_input(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str]:
    """Return the input that prevents a capture, such as `[0]` or `['mask']`, and the reason."""
    for where, leaf in (*named_leaves("", args), *named_leaves("", kwargs)):
        if isinstance(leaf, Tensor):
            if leaf.device.type != "cpu":
                return where, f"expected a tensor on cpu, got one on {leaf.device.type}"
            if leaf.layout is not torch.strided:
                return where, f"expected a tensor of layout torch.strided, got {leaf.layout}"
        else:
            try:
                hash(leaf)
            except TypeError:
                kind = type(leaf).__name__
                return where, f"expected a tensor or a hashable value, got {kind}"
    return "", ""


def describe(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return a description such as `float32[2, 3], mask=bool[2] under autocast to bfloat16`."""
    named = [leaf for name, each in kwargs.items() for leaf in named_leaves(name, each)]
    words = [_words(leaf) for leaf in tree_leaves(args)]
    words += [f"{name}={_words(leaf)}" for name, leaf in named]
    more = [f"{len(words) - _SHOWN} more"] if len(words) > _SHOWN else []
    under = ""
    if torch.is_autocast_enabled("cpu"):
        under = f" under autocast to {str(torch.get_autocast_dtype('cpu')).removeprefix('torch.')}"
    return (", ".join(words[:_SHOWN] + more) or "no inputs") + under


def _words(leaf: Any) -> str:
    if not isinstance(leaf, Tensor):
        return str(leaf)[:40]
    sizes = f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}"
    if leaf.device.type != "cpu":
        return f"{sizes} on {leaf.device.type}"
    if leaf.layout is not torch.strided:
        return f"{sizes} of {leaf.layout}"
    if leaf.is_contiguous():
        return sizes
    if leaf.dim() == 4 and leaf.is_contiguous(memory_format=torch.channels_last):
        return f"{sizes} in channels_last"
    return f"{sizes} of strides {list(leaf.stride())}"
