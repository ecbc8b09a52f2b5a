"""The fake result of the ops that are linear layers, with the checks of their arguments."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cpuaccel._compat import check

_torch: Any = torch  # Any: torch's annotations lack names that are used here


def linear_result(op: str, input: Tensor, out_features: int, in_features: int) -> Tensor:
    """Return the fake result of the linear layer `op`."""
    check(
        input.dim() > 0 and input.shape[-1] == in_features,
        lambda: (
            f"cpuaccel::{op}: expected input of {in_features} features, got {list(input.shape)}"
        ),
    )
    return input.new_empty([*input.shape[:-1], out_features])


def check_int8_matrix(op: str, name: str, weight: Tensor) -> None:
    """Raise the error of `op` if its argument `name` is no int8 matrix."""
    check(
        weight.dim() == 2 and weight.dtype == torch.int8,
        lambda: (
            f"cpuaccel::{op}: expected {name} to be an int8 matrix, got {weight.dtype} of shape"
            f" {list(weight.shape)}"
        ),
    )
