"""Decides which parameters can be packed, and gives the reason for the others."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import nn

from cpuaccel._compat import storage_use_count

REFERENCED_OUTSIDE = (
    "its weight is also referenced outside of the model (a variable, an optimizer, a view, numpy, a"
    " mapped file): a write there would not reach the packed weight"
)


def unpackable_reason(parameter: Any) -> str:
    """Return the reason why a parameter cannot be taken out of its module, or ""."""
    if type(parameter) is not nn.Parameter:
        return "its weight is not a plain nn.Parameter"
    if parameter.device.type != "cpu" or parameter.layout != torch.strided:
        return f"its weight is {parameter.layout} on {parameter.device}, not dense on the CPU"
    values: Any = parameter
    if values.numel() == 0 or not _dense(values):
        shape = f"shape {tuple(values.shape)} and strides {values.stride()}"
        return f"its weight has {shape}: empty, or with gaps between elements"
    if values.grad is not None:
        return "its weight has a gradient: call zero_grad() first"
    if values._backward_hooks or getattr(values, "_post_accumulate_grad_hooks", None):
        return "its weight has hooks"
    if values.is_shared():
        return "its weight is in shared memory"
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


def has_other_owners_of_memory(values: torch.Tensor) -> bool:
    """Return whether anything but the tensor `values` references its memory, as far as known."""
    # torch keeps the Python object of a storage, once there is one, for the storage's life. So that
    # object always counts, and references to it are counted separately: C++, the variable, the
    # argument.
    storage = values.untyped_storage()
    # A storage that torch did not allocate, or that numpy shares, cannot be resized.
    if not storage.resizable():
        return True
    return storage_use_count(storage._cdata) != 2 or sys.getrefcount(storage) > 3


def has_other_owners_of_parameters(module: nn.Module) -> bool:
    """Return whether a shallow copy of `module`, or a variable, references its `_parameters`."""
    # One reference is the module's, one is the argument of getrefcount.
    return sys.getrefcount(module.__dict__["_parameters"]) > 2
