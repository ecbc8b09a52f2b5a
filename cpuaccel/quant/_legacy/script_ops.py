"""TorchScript's ops as torch functions and methods, and those that compute on numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.fx
import torch.nn.functional as F

from cpuaccel.quant._legacy import torch_names
from cpuaccel.quant._legacy.errors import LegacyError
from cpuaccel.quant._legacy.values import DTYPES_BY_NUMBER

Call = tuple[Any, tuple[Any, ...], dict[str, Any]]
"""A function or the name of a method, and its arguments."""


def _append(items: list[Any], item: Any) -> list[Any]:
    items.append(item)
    return items


def _extend(items: list[Any], more: list[Any]) -> None:
    items.extend(more)


def _remainder(a: Any, b: Any) -> Any:
    return a % b


NUMBERS: dict[str, Callable[..., Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "remainder": _remainder,
    "neg": operator.neg,
    "__is__": operator.is_,
    "__isnot__": operator.is_not,
    "__not__": operator.not_,
    "__and__": operator.and_,
    "__or__": operator.or_,
    "__contains__": operator.contains,
    "__getitem__": operator.getitem,
    "len": len,
    "append": _append,
    "extend": _extend,
    "list": list,
    "format": lambda text, *_: text,
}
"""Ops on numbers, texts and lists, which are computed when the graph is read."""

_ARITHMETIC = frozenset(["add", "sub", "mul", "div", "floordiv", "remainder", "neg"])
_LONGEST_LIST = 100_000


def on_numbers(name: str, args: list[Any]) -> Any:
    """Return the result of an op of NUMBERS. Values stay within TorchScript's limits.

    Raises:
        LegacyError: an integer exceeds 64 bits, or a list or text would become huge.
    """
    if name in _ARITHMETIC and not all(isinstance(each, (int, float)) for each in args):
        lengths = [len(each) if isinstance(each, list) else _LONGEST_LIST for each in args]
        if name != "add" or sum(lengths) >= _LONGEST_LIST:
            raise LegacyError(f"its code computes {name} of what are not numbers")
    result = NUMBERS[name](*args)
    if isinstance(result, int) and not -(1 << 63) <= result < 1 << 63:
        raise LegacyError(f"its code computes {name}: an integer of more than 64 bits")
    return result


_GRAPH_NUMBERS = frozenset(
    "eq ne lt le gt ge add sub mul div floordiv neg __getitem__ __not__ len".split()  # noqa: SIM905
)


def _same(name: str) -> Callable[..., Call]:
    """Return a translation to the function of torch or torch.nn.functional with this name."""
    run = torch_names.function(f"torch.{name}") or torch_names.function(
        f"torch.nn.functional.{name}"
    )
    assert run is not None, name
    return lambda *args, **kwargs: (run, args, kwargs)


def _method(name: str) -> Callable[..., Call]:
    return lambda *args, **kwargs: (name, args, kwargs)


def _contiguous(x: Any, **_: Any) -> Call:
    return "contiguous", (x,), {}


def _clone(x: Any, **_: Any) -> Call:
    return "clone", (x,), {}


def _to(x: Any, *args: Any, **kwargs: Any) -> Call:
    # (dtype, non_blocking, copy, ...), or (device, dtype, ...), or (layout ...): only the dtype
    # matters on a CPU.
    dtypes = [dtype_of(each) for each in (*args, kwargs.get("dtype"))]
    found = [each for each in dtypes if each is not None]
    return ("to", (x, found[0]), {}) if found else ("contiguous", (x,), {})


def dtype_of(value: Any) -> Any:
    """Return a dtype that a number, a dtype or a node of one states; None for others."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        if value not in DTYPES_BY_NUMBER:
            raise LegacyError(f"dtype number {value} of TorchScript")
        return DTYPES_BY_NUMBER[value]
    is_node = isinstance(value, torch.fx.Node) and value.args[1:] == ("dtype",)
    return value if is_node or isinstance(value, torch.dtype) else None


def _filled(name: str) -> Callable[..., Call]:
    run = getattr(torch, name)

    def call(*args: Any, dtype: Any = None, **_: Any) -> Call:
        return run, args, {} if dtype is None else {"dtype": dtype_of(dtype)}

    return call


def _hardtanh_(x: Any, low: Any = -1.0, high: Any = 1.0) -> Call:
    return F.hardtanh, (x, low, high), {"inplace": True}


def _batch_norm(x: Any, w: Any, b: Any, mean: Any, var: Any, train: Any, *rest: Any) -> Call:
    return F.batch_norm, (x, mean, var, w, b, bool(train), *rest[:2]), {}


def _layer_norm(x: Any, shape: Any, w: Any = None, b: Any = None, e: Any = 1e-5, *_: Any) -> Call:
    return F.layer_norm, (x, shape, w, b, e), {}


def _group_norm(x: Any, groups: Any, w: Any = None, b: Any = None, e: Any = 1e-5, *_: Any) -> Call:
    return F.group_norm, (x, groups, w, b, e), {}


def _embedding(w: Any, ids: Any, *_: Any) -> Call:
    return F.embedding, (ids, w), {}


_PLAIN_CONVOLUTIONS: list[Any] = [F.conv1d, F.conv2d, F.conv3d]
_TRANSPOSED: list[Any] = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d]


def _convolution(
    x: Any, w: Any, b: Any, stride: Any, pad: Any, dilation: Any, transposed: Any, *rest: Any
) -> Call:
    sides = len(stride)
    output_padding, groups = rest[:2]
    if transposed:
        run = _TRANSPOSED[sides - 1]
        return run, (x, w, b, stride, pad, output_padding, groups, dilation), {}
    run = _PLAIN_CONVOLUTIONS[sides - 1]
    return run, (x, w, b, stride, pad, dilation, groups), {}


def _upsample(mode: str, aligned: bool) -> Callable[..., Call]:
    def call(x: Any, size: Any, *rest: Any) -> Call:
        kwargs: dict[str, Any] = {"mode": mode}
        if aligned:
            kwargs["align_corners"] = bool(rest[0])
        factors = rest[1:] if aligned else rest
        if size is not None:
            kwargs["size"] = size
        elif len(factors) == 1 and factors[0] is not None:
            kwargs["scale_factor"] = factors[0]
        else:
            raise LegacyError(f"upsampling ({mode}) without a size")
        return F.interpolate, (x,), kwargs

    return call


def _slice(x: Any, dim: Any = 0, start: Any = None, end: Any = None, step: Any = 1) -> Call:
    if not isinstance(dim, int) or dim < 0:
        raise LegacyError(f"a slice along dimension {dim}")
    end = None if isinstance(end, int) and end >= (1 << 62) else end
    index = (*(slice(None),) * dim, slice(start, end, step))
    return operator.getitem, (x, index), {}


def _dropout(x: Any, p: Any, train: Any) -> Call:
    return F.dropout, (x, p, bool(train)), {}


def _gelu(x: Any, *, approximate: str = "none") -> Call:
    return F.gelu, (x,), {"approximate": approximate}


def _pad(x: Any, ends: Any, mode: str = "constant", value: Any = None) -> Call:
    return F.pad, (x, ends, mode, value), {}


def _size(x: Any, *args: Any) -> Call:
    return "size", (x, *args), {}


_METHODS = """
    add_ bmm chunk cumsum dequantize detach dim expand flatten mean mul_ narrow numel permute pow
    relu_ repeat reshape select sigmoid_ split squeeze sub_ sum t tanh_ transpose unbind unflatten
    unsqueeze view masked_fill clamp clamp_ div_
"""
_SAME = """
    abs adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d addmm avg_pool1d avg_pool2d
    avg_pool3d baddbmm cat celu channel_shuffle conv1d conv2d conv3d elu exp glu hardsigmoid
    hardswish hardtanh leaky_relu linear log matmul max_pool1d max_pool2d max_pool3d maximum minimum
    mish pixel_shuffle pixel_unshuffle prelu relu relu6 rsqrt sigmoid silu softplus sqrt stack tanh
    gather rsub where index_select log_softmax softmax selu
"""

TENSORS: dict[str, Callable[..., Call]] = {
    **{name: _method(name) for name in _METHODS.split()},
    **{name: _same(name) for name in _SAME.split()},
    **{name: _filled(name) for name in ("zeros", "ones", "full", "zeros_like", "ones_like")},
    "arange": _filled("arange"),
    "contiguous": _contiguous,
    "pad": _pad,
    "clone": _clone,
    "to": _to,
    "size": _size,
    "hardtanh_": _hardtanh_,
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "group_norm": _group_norm,
    "embedding": _embedding,
    "_convolution": _convolution,
    "upsample_nearest2d": _upsample("nearest", aligned=False),
    "upsample_bilinear2d": _upsample("bilinear", aligned=True),
    "slice": _slice,
    "dropout": _dropout,
    "feature_dropout": _dropout,
    "gelu": _gelu,
    **{
        name: lambda *args, run=NUMBERS[name], **kwargs: (run, args, kwargs)
        for name in _GRAPH_NUMBERS
    },
}
"""Ops on tensors, by their name in `torch`."""
