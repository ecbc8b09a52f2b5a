"""Which parameters can be packed, and why others cannot."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import nn

from cpuaccel import _native
from cpuaccel._prepack.weight import panel_columns

MOST = 1.1
"""Memory of packed weights, at most this many times that of the plain ones."""

HELD = (
    "its weight is also held outside of the model (a variable, an optimizer, a view, numpy, a"
    " mapped file): what is written there would not be seen"
)
_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_FP16_ARITHMETIC = frozenset({"avx512_fp16", "avx512fp16", "amx_fp16"})


def why_not(weight: Any, rows: tuple[int, ...]) -> str:
    """Return why a parameter is not to be packed, its rows in parts of `rows`, or ""."""
    if type(weight) is not nn.Parameter:
        return "its weight is not a plain parameter"
    if weight.device.type != "cpu" or weight.layout != torch.strided:
        return f"its weight is {weight.layout} on {weight.device}, not dense on the CPU"
    if weight.dtype not in _TYPES:
        return f"its weight is of {weight.dtype}"
    if weight.dim() != 2 or weight.numel() == 0 or sum(rows) != weight.shape[0]:
        return f"its weight has the shape {tuple(weight.shape)}"
    if weight.grad is not None:
        return "its weight has a gradient: call zero_grad() first"
    if weight._backward_hooks or getattr(weight, "_post_accumulate_grad_hooks", None):
        return "its weight has hooks"
    values: Any = weight
    if values.is_shared():
        return "its weight is in memory that processes share"
    if weight.is_inference():
        return "its weight was made in inference mode"
    panel = panel_columns()
    padded = sum((part + panel - 1) // panel * panel for part in rows)
    if padded > MOST * weight.shape[0]:
        return f"its {weight.shape[0]} rows, packed by {panel}, would take more than {MOST} times"
    return _slow_type(weight.dtype)


def _slow_type(dtype: torch.dtype) -> str:
    native = _native.load()
    if dtype == torch.bfloat16 and native.has_bf16_arithmetic():
        return "torch multiplies bfloat16 faster on this CPU, which has instructions for it"
    if dtype == torch.float16 and _FP16_ARITHMETIC & set(native.cpu_features()):
        return "torch multiplies float16 faster on this CPU, which has instructions for it"
    return ""


def others_have_memory_of(values: torch.Tensor) -> bool:
    """Return whether anything but the tensor `values` has its memory, as far as torch knows."""
    # torch keeps the Python object of a storage for the storage's life, once there is one; so it
    # always counts, and those who have the object count apart: C++, the variable, the argument.
    storage = values.untyped_storage()
    # What torch did not allocate, or gave to numpy, cannot be resized.
    if not storage.resizable():
        return True
    return torch._C._storage_Use_Count(storage._cdata) != 2 or sys.getrefcount(storage) > 3


def others_have_parameters_of(module: nn.Module) -> bool:
    """Return whether a shallow copy of `module`, or a variable, has its dict of parameters."""
    # One for the module, one for the argument.
    return sys.getrefcount(module.__dict__["_parameters"]) > 2
