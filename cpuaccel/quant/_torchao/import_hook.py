"""Registers cpuaccel's linear with torchao's Int8Tensor when torchao is imported.

Nothing is imported, and nothing registered, in a process that never imports torchao.
`int8_weights.py` has what is registered.
"""

from __future__ import annotations

import sys
import threading
from types import ModuleType

from cpuaccel._import_hook import after_import

MODULE = "torchao.quantization.quantize_.workflows.int8.int8_tensor"
"""The module that defines Int8Tensor. torchao before 0.15 has none."""

_lock = threading.RLock()
_wanted = False


def install() -> None:
    """Register cpuaccel's linear, now or when torchao is imported."""
    global _wanted
    with _lock:
        _wanted = True
        after_import(MODULE, _register)


def uninstall() -> None:
    """Restore torchao's own linear."""
    global _wanted
    with _lock:
        _wanted = False
        if MODULE in sys.modules:
            from cpuaccel.quant._torchao import int8_weights

            int8_weights.unregister()


def _register(module: ModuleType) -> None:
    with _lock:
        # Without Int8Tensor it is another torchao, or an import that failed.
        if _wanted and hasattr(module, "Int8Tensor"):
            from cpuaccel.quant._torchao import int8_weights

            int8_weights.register(module)
