"""Decides which parameters can be packed, and gives the reason for the others."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import nn

HELD = (
    "its weight is also held outside of the model (a variable, an optimizer, a view, numpy, a"
    " mapped file): what is written there would not be seen"
)


def why_not(parameter: Any) -> str:
    """Return the reason why a parameter cannot be taken out of its module, or ""."""
    if type(parameter) is not nn.Parameter:
        return "its weight is not a plain parameter"
    if parameter.device.type != "cpu" or parameter.layout != torch.strided:
        return f"its weight is {parameter.layout} on {parameter.device}, not dense on the CPU"
    values: Any = parameter
    if values.numel() == 0 or not _dense(values):
        return f"its weight has the shape {tuple(values.shape)} and strides {values.stride()}"
    if values.grad is not None:
        return "its weight has a gradient: call zero_grad() first"
    if values._backward_hooks or getattr(values, "_post_accumulate_grad_hooks", None):
        return "its weight has hooks"
    if values.is_shared():
        return "its weight is in memory that processes share"
    return ""


def _dense(values: torch.Tensor) -> bool:
    """Return whether the elements fill their memory without gaps, in any order of dimensions."""
    expected = 1
    for stride, size in sorted(zip(values.stride(), values.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def others_have_memory_of(values: torch.Tensor) -> bool:
    """Return whether anything but the tensor `values` uses its memory, as far as torch knows."""
    # torch keeps the Python object of a storage, once there is one, for the storage's life. So that
    # object always counts, and references to it are counted separately: C++, the variable, the
    # argument.
    storage = values.untyped_storage()
    # A storage that torch did not allocate, or that numpy shares, cannot be resized.
    if not storage.resizable():
        return True
    return torch._C._storage_Use_Count(storage._cdata) != 2 or sys.getrefcount(storage) > 3


def others_have_parameters_of(module: nn.Module) -> bool:
    """Return whether a shallow copy of `module`, or a variable, holds its dict of parameters."""
    # One reference is the module's, one the argument's.
    return sys.getrefcount(module.__dict__["_parameters"]) > 2
