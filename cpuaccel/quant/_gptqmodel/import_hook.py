"""Runs gptqmodel's layers for torch on cpuaccel's kernels, from the import of gptqmodel on.

The forward of the class is replaced. A layer is packed in its first call, and again when one of its
buffers was replaced or written to. Training and compiled code run gptqmodel's own forward.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from cpuaccel import _native
from cpuaccel._engine_state import is_enabled
from cpuaccel._import_hook import ImportHook
from cpuaccel.quant._gptqmodel.names import MODULES

_Forward = Callable[[Any, Tensor], Any]

_replaced: dict[type, tuple[_Forward, _Forward]] = {}
"""The class's forward before, and cpuaccel's."""
_packed: WeakKeyDictionary[Any, tuple[Any, Any, str]] = WeakKeyDictionary()
"""Of a layer: its state, its IntxLinear or None, and the reason for None."""


def is_replaced(cls: type) -> bool:
    """Say whether cpuaccel replaced the forward of this class."""
    return cls in _replaced


def reason(layer: Any) -> str:
    """Say why gptqmodel's own forward runs a layer, as far as known before its first call."""
    from cpuaccel.quant._gptqmodel.layers import reason_to_leave

    known = _packed.get(layer)
    return reason_to_leave(layer) or ("" if known is None else known[2])


def _register(module: ModuleType) -> None:
    for name in MODULES[module.__name__]:
        cls = getattr(module, name, None)
        if isinstance(cls, type) and "forward" in cls.__dict__:
            _replace(cls)


def _restore() -> None:
    """Restore gptqmodel's forward, unless someone else replaced cpuaccel's."""
    for cls, (before, replacement) in _replaced.items():
        if cls.__dict__.get("forward") is replacement:
            cls.forward = before  # type: ignore[attr-defined]
    _replaced.clear()
    _packed.clear()


def _replace(cls: Any) -> None:
    if cls in _replaced:
        return
    before: _Forward = cls.forward

    @wraps(before)
    def forward(self: Any, x: Tensor) -> Any:
        layer = None if _is_foreign(self, x) else _layer(self)
        return before(self, x) if layer is None else layer(x)

    _replaced[cls] = (before, forward)
    cls.forward = forward


def _is_foreign(layer: Any, x: Any) -> bool:
    """Whether gptqmodel's own forward runs this call: no use of cpuaccel, so nothing is counted."""
    return (
        torch.compiler.is_compiling()
        or layer.training
        or not is_enabled()
        or torch.is_autocast_enabled("cpu")  # the result's dtype is then autocast's
        or type(x) is not Tensor
        or x.device.type != "cpu"
        or x.dim() == 0
        or x.shape[-1] != layer.in_features
    )


def _layer(layer: Any) -> Any:
    """Return the packed layer; None, with a counted reason, if gptqmodel's forward runs."""
    from cpuaccel.quant._gptqmodel.layers import packed_layer, reason_to_leave, state_of

    why = reason_to_leave(layer)
    if not why:
        state = state_of(layer)
        known = _packed.get(layer)
        if known is None or known[0] != state:
            known = (state, *_pack(layer, packed_layer))
            _packed[layer] = known
        _, packed, why = known
        if packed is not None:
            return packed
    _native.load().count_fallback("gptqmodel", why)
    return None


def _pack(layer: Any, packed_layer: Callable[..., Any]) -> tuple[Any, str]:
    try:
        with torch.inference_mode(False), torch.no_grad():
            return packed_layer(layer, type(layer).__name__), ""
    except (ValueError, RuntimeError) as error:
        return None, str(error).splitlines()[0]


_hook = ImportHook(MODULES, _register, _restore)
install = _hook.install
uninstall = _hook.uninstall
