"""Error bounds between a plan's outputs and the model's, by arithmetic: fp32, bf16, int8."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

FP32_BOUND = 1e-4
ROUNDING = 1e-2
"""Larger fp32 errors fail at once; smaller ones may be rounding that the model amplifies, and are
compared with float64."""
ROUNDING_FACTOR = 2.0
HALF_FACTOR, HALF_SLACK = 2.0, 0.01
# An engine may round a sum or an average on the border of two steps to the other step.
INT8_BOUND = 0.05
INT8_FACTOR = 2.0
FLOAT32_ERROR = 2.0**-24
"""The largest relative error of rounding to float32."""

BOUNDS = {
    "fp32": f"largest difference from eager at most {FP32_BOUND:g} of the output's largest value; "
    f"or, for an ill-conditioned model, from float64 at most {ROUNDING_FACTOR:g} times eager's",
    "bf16": f"distance from fp32's eager output, over that output's norm, at most {HALF_FACTOR:g} "
    f"times that of eager in bf16, plus {HALF_SLACK:g}",
    "int8": f"distance from eager in int8, over that output's norm, at most {INT8_BOUND:g}; "
    f"or that from float64 between the quantizers at most {INT8_FACTOR:g} times eager's, or that "
    "of the same with errors as large as float32's",
}
"""The bounds in words, by arithmetic. fp16 has the bound of bf16."""

Judge = Callable[[Tensor, Tensor, Tensor], tuple[float, float]]
"""Returns the error of a tensor and its bound, from the tensor found, eager's and an exact one."""


def fp32_error(found: Tensor, eager: Tensor, exact: Tensor) -> tuple[float, float]:
    """Return the largest difference from eager over eager's largest value, and its bound."""
    return _largest(found, eager) / _scale(eager), FP32_BOUND


def rounding_error(found: Tensor, eager: Tensor, exact: Tensor) -> tuple[float, float]:
    """Return the largest relative difference from `exact` (float64), and the bound from eager's."""
    plan_error, eager_error = (_largest(each, exact) / _scale(exact) for each in (found, eager))
    return plan_error, ROUNDING_FACTOR * eager_error


def half_error(found: Tensor, eager: Tensor, exact: Tensor) -> tuple[float, float]:
    """Return the distance from `exact` (fp32), and the bound from that of eager in 16 bits."""
    plan_error, eager_error = (distance(each, exact) for each in (found, eager))
    return plan_error, HALF_FACTOR * eager_error + HALF_SLACK


def half_error_from_eager(found: Tensor, eager: Tensor, exact: Tensor) -> tuple[float, float]:
    """Return the distance from eager in 16 bits, and a bound that implies half_error's."""
    return distance(found, eager), HALF_SLACK


def int8_error(found: Tensor, eager: Tensor, exact: Tensor) -> tuple[float, float]:
    """Return the distance from eager in int8, and its bound."""
    return distance(found, eager), INT8_BOUND


def int8_error_from_exact(found: Tensor, eager: Tensor, exact: Tensor) -> tuple[float, float]:
    """Return the distance from `exact` (float64 between quantizers), and the bound from eager's."""
    return distance(found, exact), INT8_FACTOR * distance(eager, exact)


def differences(found: Tensor, other: Tensor) -> Tensor:
    """Return the size of each difference as float64; 0 where both are the same NaN or infinity."""
    found, other = plain(found), plain(other)
    same = (found == other) | (found.isnan() & other.isnan())
    return torch.where(same, 0.0, (found - other).abs())


def distance(found: Tensor, other: Tensor) -> float:
    """Return the norm of the difference over the norm of `other`."""
    norm = float(torch.nan_to_num(plain(other), nan=0.0, posinf=0.0, neginf=0.0).norm())
    return float(differences(found, other).norm()) / max(norm, torch.finfo(torch.float32).tiny)


def _largest(found: Tensor, other: Tensor) -> float:
    return float(differences(found, other).max()) if found.numel() else 0.0


def _scale(tensor: Tensor) -> float:
    values = torch.nan_to_num(plain(tensor), nan=0.0, posinf=0.0, neginf=0.0).abs()
    largest = float(values.max()) if values.numel() else 0.0
    return max(largest, torch.finfo(torch.float32).tiny)


def plain(tensor: Tensor) -> Tensor:
    """Return the values of a tensor of any dtype as float64."""
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    return torch.view_as_real(tensor).double() if tensor.is_complex() else tensor.double()
