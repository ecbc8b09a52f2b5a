"""Registers cpuaccel's layers with classes of torchao when torchao is imported.

Nothing is imported, and nothing registered, in a process that never imports torchao.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from cpuaccel._import_hook import ImportHook

_WORKFLOWS = "torchao.quantization.quantize_.workflows"

MODULES = {
    f"{_WORKFLOWS}.int8.int8_tensor": ("Int8Tensor", "int8_weights"),
    f"{_WORKFLOWS}.intx.intx_unpacked_to_int8_tensor": (
        "IntxUnpackedToInt8Tensor",
        "intx_weights",
    ),
}
"""The modules of torchao, each with its class and the module here that registers with it. An old
torchao lacks some of them."""


def _module_for(name: str) -> ModuleType:
    return importlib.import_module(f"cpuaccel.quant._torchao.{MODULES[name][1]}")


def _register(module: ModuleType) -> None:
    # Without the class it is another torchao, or an import that failed.
    if hasattr(module, MODULES[module.__name__][0]):
        _module_for(module.__name__).register(module)


def _restore() -> None:
    for name in MODULES:
        if name in sys.modules:
            _module_for(name).unregister()


_hook = ImportHook(MODULES, _register, _restore)
install = _hook.install
uninstall = _hook.uninstall
