"""Quantized tensors that are sent to another process by `multiprocessing`.

torch 2.13 sends the bytes of a quantized tensor without its scales. The receiver fails on them
while it unpickles, so a worker of a `multiprocessing.Pool` ends and the pool waits forever. While
cpuaccel is on, a quantized tensor is sent as `torch.save` writes it, in shared memory.
"""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
import torch.multiprocessing  # registers the reductions that are wrapped here
from torch import Tensor

_reducers: dict[Any, Any] = vars(ForkingPickler)["_extra_reducers"]
_PROTOCOL = 2
_replaced: dict[Any, tuple[Any, Any]] = {}
"""By class: torch's reduction, and the one that overrides it."""


def install() -> None:
    """Register a reduction for each class that may be quantized, over torch's."""
    for cls in (torch.Tensor, torch.nn.Parameter):
        if cls not in _replaced and cls in _reducers:
            wrapped = _with_quantizer(_reducers[cls])
            _replaced[cls] = (_reducers[cls], wrapped)
            ForkingPickler.register(cls, wrapped)


def uninstall() -> None:
    """Restore torch's reductions."""
    for cls, (reduction, wrapped) in _replaced.items():
        if _reducers.get(cls) is wrapped:
            ForkingPickler.register(cls, reduction)
    _replaced.clear()


def _with_quantizer(reduction: Any) -> Any:
    def reduce(tensor: Tensor) -> Any:
        if tensor.is_quantized and tensor.device.type == "cpu":
            quantized: Any = tensor
            return quantized.__reduce_ex__(_PROTOCOL)
        return reduction(tensor)

    return reduce
