"""`torch.ops.quantized_decomposed`: quantize and dequantize of plain tensors, as in PT2E models.

torch 2.13 to 2.15 define these ops in torch.ao, which torchao imports. Where torch.ao is missing,
this module defines those that PT2E models and lowered models call, by the same schemas and
formulas. Importing it is enough.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cpuaccel._compat import DECOMPOSED_OPS_MODULE

_NAMESPACE = "quantized_decomposed"

# The first of them that can be imported defines the ops.
_DEFINING = (
    DECOMPOSED_OPS_MODULE,
    "torchao.quantization.pt2e.quantize_pt2e",
)

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32)
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def _is_defined() -> bool:
    return hasattr(getattr(torch.ops, _NAMESPACE), "quantize_per_tensor")


def _check_range(op: str, low: int, high: int, dtype: torch.dtype) -> None:
    if dtype not in _INTEGERS:
        raise ValueError(f"{op}: dtype: expected one of {_INTEGERS}, got {dtype}")
    limits = torch.iinfo(dtype)
    if low < limits.min or high > limits.max:
        raise ValueError(
            f"{op}: quant_min and quant_max: expected values from {limits.min} to {limits.max},"
            f" those of {dtype}, got {low} and {high}"
        )


def _quantize(
    input: Tensor, scale: Any, zero_point: Any, low: int, high: int, dtype: torch.dtype
) -> Tensor:
    if input.dtype not in _FLOATS:
        raise ValueError(f"quantize: input: expected one of {_FLOATS}, got {input.dtype}")
    _check_range("quantize", low, high, dtype)
    steps = torch.round(input.float() * (1.0 / scale)) + zero_point
    return torch.clamp(steps, low, high).to(dtype)


def _dequantize(
    input: Tensor,
    scale: Any,
    zero_point: Any,
    low: int,
    high: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    if input.dtype != dtype:
        raise ValueError(f"dequantize: input: expected {dtype}, as dtype says, got {input.dtype}")
    _check_range("dequantize", low, high, dtype)
    values = input.to(torch.float32 if out_dtype is None else out_dtype)
    values = values if zero_point is None else values - zero_point
    result: Tensor = (values * scale).to(values.dtype)
    return result


def _by_numbers(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return `function` for a scale and a zero point that are tensors of one element."""

    def by_numbers(
        input: Tensor, scale: Tensor, zero: Tensor, *rest: Any, **options: Any
    ) -> Tensor:
        for name, value in (("scale", scale), ("zero_point", zero)):
            if value.numel() != 1:
                raise ValueError(f"{name}: expected one element, got {value.numel()}")
        return function(input, scale.item(), zero.item(), *rest, **options)

    return by_numbers


def _by_channels(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return `function` for a scale and a zero point for each index of a dimension."""

    def by_channels(
        input: Tensor, scales: Tensor, zeros: Tensor | None, axis: int, *rest: Any, **options: Any
    ) -> Tensor:
        if axis >= input.dim():
            raise ValueError(f"axis: expected less than {input.dim()}, got {axis}")
        sizes = [-1 if dim == axis else 1 for dim in range(input.dim())]
        zero_points = None if zeros is None else zeros.view(sizes)
        return function(input, scales.view(sizes), zero_points, *rest, **options)

    return by_channels


def _choose(
    input: Tensor, low: int, high: int, epsilon: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    _check_range("choose_qparams", low, high, dtype)
    smallest, largest = input.float().amin().clamp(max=0), input.float().amax().clamp(min=0)
    scale = ((largest - smallest) / float(high - low)).clamp(min=epsilon)
    zero_point = (low - torch.round(smallest / scale).to(torch.int64)).clamp(low, high)
    return scale.to(torch.float64), zero_point


def _fake_quantized(input: Tensor, *arguments: Any) -> Tensor:
    return torch.empty_like(input, dtype=arguments[-1])


def _fake_dequantized(input: Tensor, *_: Any, out_dtype: torch.dtype | None = None) -> Tensor:
    return torch.empty_like(input, dtype=torch.float32 if out_dtype is None else out_dtype)


def _fake_chosen(input: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return input.new_empty(1, dtype=torch.float64), input.new_empty(1, dtype=torch.int64)


_RANGE = "int quant_min, int quant_max, ScalarType dtype"
_NUMBERS = f"(Tensor input, float scale, int zero_point, {_RANGE}"
_TENSORS = f"(Tensor input, Tensor scale, Tensor zero_point, {_RANGE}"
_OUT = ", *, ScalarType? out_dtype=None) -> Tensor"
_CHANNELS = f"int axis, {_RANGE}"

_OPS: dict[str, tuple[str, Callable[..., Any], Callable[..., Any]]] = {
    "quantize_per_tensor": (f"{_NUMBERS}) -> Tensor", _quantize, _fake_quantized),
    "quantize_per_tensor.tensor": (
        f"{_TENSORS}) -> Tensor",
        _by_numbers(_quantize),
        _fake_quantized,
    ),
    "dequantize_per_tensor": (_NUMBERS + _OUT, _dequantize, _fake_dequantized),
    "dequantize_per_tensor.tensor": (
        _TENSORS + _OUT,
        _by_numbers(_dequantize),
        _fake_dequantized,
    ),
    "quantize_per_channel": (
        f"(Tensor input, Tensor scales, Tensor zero_points, {_CHANNELS}) -> Tensor",
        _by_channels(_quantize),
        _fake_quantized,
    ),
    "dequantize_per_channel": (
        f"(Tensor input, Tensor scales, Tensor? zero_points, {_CHANNELS}{_OUT}",
        _by_channels(_dequantize),
        _fake_dequantized,
    ),
    "choose_qparams.tensor": (
        "(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype)"
        " -> (Tensor, Tensor)",
        _choose,
        _fake_chosen,
    ),
}

_libraries: list[Any] = []


def _define() -> None:
    """Define the ops. The library stays: the ops go with it."""
    libraries: Any = torch.library
    library = libraries.Library(_NAMESPACE, "FRAGMENT")
    for name, (schema, function, fake) in _OPS.items():
        library.define(f"{name}{schema}")
        library.impl(name, function, "CompositeExplicitAutograd")
        library.impl(name, fake, "Meta")
    _libraries.append(library)


def ensure() -> None:
    """Import what defines the ops, or define them."""
    for module in _DEFINING:
        if _is_defined():
            return
        try:
            importlib.import_module(module)
        except ImportError:
            continue
    if not _is_defined():
        _define()


ensure()
