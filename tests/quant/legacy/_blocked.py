"""A torch without torch.ao and quantized tensors, as far as cpuaccel can see.

Within `blocked()`, importing torch.ao from cpuaccel raises, and so does every function of torch
that makes a quantized tensor or loads a file. torch has no quantized dtypes and no such storages;
only torch's own code, which still names them, sees them.
cpuaccel's modules for int8 models are imported anew, so that what they do on import counts too.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

_PACKAGES = ("cpuaccel.quant.",)
_FUNCTIONS = (
    *("quantize_per_tensor", "quantize_per_channel", "quantize_per_tensor_dynamic"),
    *("_make_per_tensor_quantized_tensor", "_make_per_channel_quantized_tensor"),
    *("_empty_affine_quantized", "_empty_per_channel_affine_quantized", "empty_quantized"),
    *("load", "quantized_lstm", "quantized_gru"),
)
_DTYPES = ("quint8", "qint8", "qint32", "quint4x2", "quint2x4")
_STORAGES = ("QInt8Storage", "QUInt8Storage", "QInt32Storage")
_ALLOWED = "torch.ao.quantization.fx._decomposed"
"""torch defines the ops of PT2E models there, on plain tensors; Inductor imports it too."""


class BlockedError(AssertionError):
    """Something was used that torch is going to remove."""


class BlockedImportError(BlockedError, ImportError):
    """The same, as the ImportError that code may expect of a torch without torch.ao."""


class _NoOps:
    """torch.ops.quantized, for torch's own code only: torch lists all ops."""

    def __init__(self, ops: Any) -> None:
        self._ops = ops

    def __getattr__(self, name: str) -> Any:
        if not _called_by_torch():
            raise BlockedError(f"torch.ops.quantized.{name}")
        return getattr(self._ops, name)


def _called_by_torch() -> bool:
    """Return whether torch's own code asks: it still names what it is going to remove."""
    asking = sys._getframe(2).f_globals.get("__name__", "")
    return asking == "torch" or asking.startswith("torch.")


def _without(names: dict[str, Any]) -> Any:
    """Return a __getattr__ for the module torch that has these names for torch's own code only."""
    original = vars(torch)["__getattr__"]

    def __getattr__(name: str) -> Any:
        if name in names and _called_by_torch():
            return names[name]
        return original(name)

    return __getattr__


def _raises(name: str, original: Any) -> Any:
    def blocked(*args: Any, **kwargs: Any) -> Any:
        if not _called_by_torch():
            raise BlockedError(name)
        return original(*args, **kwargs)

    return blocked


@contextmanager
def blocked() -> Iterator[None]:
    importlib.import_module(_ALLOWED)
    saved = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_ours(name)}
    with pytest.MonkeyPatch.context() as patch:
        for name in _FUNCTIONS:
            if hasattr(torch, name):
                patch.setattr(torch, name, _raises(f"torch.{name}", getattr(torch, name)))
        hidden = {name: getattr(torch, name) for name in (*_DTYPES, *_STORAGES)}
        for name in hidden:
            patch.delattr(torch, name)
        patch.setitem(vars(torch), "__getattr__", _without(hidden))
        patch.setattr(torch.jit, "load", _raises("torch.jit.load", torch.jit.load))
        rebuild = torch._utils._rebuild_qtensor
        patch.setattr(torch._utils, "_rebuild_qtensor", _raises("_rebuild_qtensor", rebuild))
        patch.setitem(vars(torch.ops), "quantized", _NoOps(torch.ops.quantized))
        patch.setattr(builtins, "__import__", _importing(builtins.__import__))
        try:
            yield
        finally:
            for name in [name for name in sys.modules if _is_ours(name)]:
                del sys.modules[name]
            sys.modules.update(saved)


def _is_ours(name: str) -> bool:
    return name.startswith(_PACKAGES)


def _importing(original: Any) -> Any:
    def importing(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        importer = (globals or {}).get("__name__", "")
        is_ao = name == "torch.ao" or name.startswith(("torch.ao.", "torch.nn.quantized"))
        if importer.startswith("cpuaccel") and is_ao and name != _ALLOWED:
            raise BlockedImportError(f"{importer} imports {name}")
        return original(name, globals, locals, fromlist, level)

    return importing


def load_blocked(*args: Any, **kwargs: Any) -> torch.nn.Module:
    """`cpuaccel.quant.load_legacy` on such a torch."""
    from cpuaccel import quant

    with blocked():
        model: torch.nn.Module = quant.load_legacy(*args, **kwargs)
    return model
