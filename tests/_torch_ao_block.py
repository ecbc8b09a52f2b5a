"""A torch without torch.ao, quantized dtypes and quantized tensors, as far as cpuaccel can see.

Within `blocked()`, cpuaccel finds what a torch finds that has removed them: importing torch.ao
raises an ImportError, and torch's quantized dtypes, storages and functions are missing attributes.
torch's own code and other libraries still see everything, because torch itself imports torch.ao.
`install()` does the same for a whole process, and for the tests' modules too. It also makes torch's
dispatcher reject each op that makes a quantized tensor, whoever calls it.

Every name that is asked for in vain is in `asked`.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import importlib.abc
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_TESTS = Path(__file__).resolve().parent
_FOLDERS = tuple(
    f"{folder}/"
    for folder in (_TESTS, *(_TESTS.parent / each for each in ("benchmarks", "examples")))
)
_PACKAGE = "cpuaccel.quant"
"""Its modules are imported anew in `blocked()`, so that what they do on import counts too."""

_MAKERS = (
    *("quantize_per_tensor", "quantize_per_channel", "quantize_per_tensor_dynamic"),
    *("_make_per_tensor_quantized_tensor", "_make_per_channel_quantized_tensor"),
    *("_empty_affine_quantized", "_empty_per_channel_affine_quantized", "empty_quantized"),
)
_NAMES = (
    *_MAKERS,
    *("quantized_lstm", "quantized_gru"),
    *("quint8", "qint8", "qint32", "quint4x2", "quint2x4"),
    *("QInt8Storage", "QUInt8Storage", "QInt32Storage"),
)
_DECOMPOSED = "torch.ao.quantization.fx._decomposed"
"""torch defines the ops of PT2E models there, on plain tensors, and Inductor imports it."""

asked: list[str] = []
_libraries: list[Any] = []


class BlockedError(AssertionError):
    """Something was used that torch is going to remove."""


class BlockedNameError(BlockedError, AttributeError):
    """The same, as the AttributeError that code may expect of a torch without the name."""


class BlockedImportError(BlockedError, ImportError):
    """The same, as the ImportError that code may expect of a torch without torch.ao."""


class _Forever:
    """pytest.MonkeyPatch's functions, for processes without pytest."""

    setattr, delattr = staticmethod(setattr), staticmethod(delattr)

    @staticmethod
    def setitem(table: dict[str, Any], name: str, value: Any) -> None:
        table[name] = value


_Blocks = Callable[[dict[str, Any]], bool]
"""Says of a module's globals whether the module is to find the names missing."""


def _in_cpuaccel(module: dict[str, Any]) -> bool:
    return str(module.get("__name__", "")).split(".")[0] == "cpuaccel"


def _in_project(module: dict[str, Any]) -> bool:
    path = str(module.get("__file__", ""))
    if module.get("__name__") == "__main__":
        return "site-packages" not in path
    return _in_cpuaccel(module) or (path.startswith(_FOLDERS) and path != __file__)


def _caller(depth: int) -> dict[str, Any]:
    return sys._getframe(depth + 1).f_globals


def _refuse(kind: type[BlockedError], name: str, module: dict[str, Any]) -> BlockedError:
    asked.append(name)
    return kind(f"{module.get('__name__')} uses {name}, which this run blocks")


class _NoOps:
    """torch.ops.quantized for others than the blocked modules: torch lists all ops."""

    def __init__(self, ops: Any, blocks: _Blocks) -> None:
        self._ops, self._blocks = ops, blocks

    def __getattr__(self, name: str) -> Any:
        if self._blocks(module := _caller(1)):
            raise _refuse(BlockedNameError, f"torch.ops.quantized.{name}", module)
        return getattr(self._ops, name)


def _missing(names: dict[str, Any], otherwise: Any, blocks: _Blocks) -> Any:
    """Return a __getattr__ for the module torch that has these names for others only."""

    def __getattr__(name: str) -> Any:
        if name not in names:
            return otherwise(name)
        if blocks(module := _caller(1)):
            raise _refuse(BlockedNameError, f"torch.{name}", module)
        return names[name]

    return __getattr__


def _raising(name: str, original: Any, blocks: _Blocks) -> Any:
    def blocked(*args: Any, **kwargs: Any) -> Any:
        if blocks(module := _caller(1)):
            raise _refuse(BlockedError, name, module)
        return original(*args, **kwargs)

    return blocked


def _is_torch_ao(name: str) -> bool:
    return name == "torch.ao" or name.startswith(("torch.ao.", "torch.nn.quantized"))


def _imports(name: str, fromlist: Any) -> str:
    """Return the module of torch.ao that an import statement asks for, or an empty string."""
    names = [name, *(f"{name}.{each}" for each in fromlist or ())]
    return next((each for each in names if _is_torch_ao(each)), "")


def _patch(patch: Any, blocks: _Blocks) -> None:
    """Hide everything of the loaded torch from the modules that `blocks` selects."""
    import torch

    importlib.import_module(_DECOMPOSED)
    hidden = {name: getattr(torch, name) for name in (*_NAMES, "ao") if hasattr(torch, name)}
    for name in hidden:
        patch.delattr(torch, name)
    patch.setitem(vars(torch), "__getattr__", _missing(hidden, vars(torch)["__getattr__"], blocks))
    rebuild = torch._utils._rebuild_qtensor
    patch.setattr(torch._utils, "_rebuild_qtensor", _raising("_rebuild_qtensor", rebuild, blocks))
    patch.setitem(vars(torch.ops), "quantized", _NoOps(torch.ops.quantized, blocks))


def _patch_imports(patch: Any, blocks: _Blocks, loaded: Callable[[], None]) -> None:
    """Refuse imports of torch.ao. `loaded` is called after each other import."""
    import_statement, import_module = builtins.__import__, importlib.import_module

    def importing(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        module = globals or {}
        if not blocks(module):
            return import_statement(name, globals, locals, fromlist, level)
        if level == 0 and (found := _imports(name, fromlist)):
            raise _refuse(BlockedImportError, found, module)
        result = import_statement(name, globals, locals, fromlist, level)
        loaded()
        return result

    def importing_module(name: str, package: str | None = None) -> Any:
        if blocks(module := _caller(1)) and _is_torch_ao(name):
            raise _refuse(BlockedImportError, name, module)
        return import_module(name, package)

    patch.setattr(builtins, "__import__", importing)
    patch.setattr(importlib, "import_module", importing_module)


@contextmanager
def blocked() -> Iterator[None]:
    """Hide torch.ao from cpuaccel, and torch's own functions that load files."""
    import pytest
    import torch

    package = importlib.import_module(_PACKAGE)
    saved = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_reloaded(name)}
    with pytest.MonkeyPatch.context() as patch:
        _patch(patch, _in_cpuaccel)
        for owner, name in ((torch, "torch.load"), (torch.jit, "torch.jit.load")):
            patch.setattr(owner, "load", _raising(name, owner.load, _in_cpuaccel))
        _patch_imports(patch, _in_cpuaccel, lambda: None)
        try:
            yield
        finally:
            for name in [name for name in sys.modules if _is_reloaded(name)]:
                del sys.modules[name]
                vars(package).pop(name.removeprefix(f"{_PACKAGE}."), None)
            for name, module in saved.items():
                sys.modules[name] = module
                if "." not in (child := name.removeprefix(f"{_PACKAGE}.")):
                    setattr(package, child, module)


def _is_reloaded(name: str) -> bool:
    return name.startswith(f"{_PACKAGE}.")


class _BeforeCpuaccel(importlib.abc.MetaPathFinder):
    """Calls a function before cpuaccel is imported: torch does that when it is imported itself."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "cpuaccel" and hasattr(sys.modules.get("torch"), "_import_device_backends"):
            self._function()


@functools.cache
def install() -> None:
    """Hide torch.ao from cpuaccel and the tests until the process ends.

    It may be called before torch is imported: torch is changed as soon as it is there. Further
    calls do nothing.
    """

    @functools.cache
    def hide() -> None:
        _patch(_Forever, _in_project)
        _reject_makers(sys.modules["torch"])

    def hide_if_loaded() -> None:
        if (torch := sys.modules.get("torch")) and not torch.__spec__._initializing:
            hide()

    sys.meta_path.insert(0, _BeforeCpuaccel(hide))
    _patch_imports(_Forever, _in_project, hide_if_loaded)
    hide_if_loaded()


def _reject_makers(torch: Any) -> None:
    """Make the dispatcher raise for each op that makes a quantized tensor."""
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*Overriding a previously registered kernel")
        for maker in _MAKERS:
            for overload in getattr(torch.ops.aten, maker).overloads():
                name = f"{maker}.{overload}".removesuffix(".default")
                for key in ("CPU", "AutogradCPU"):
                    library.impl(name, _rejecting(name), key, allow_override=True)
    _libraries.append(library)


def _rejecting(name: str) -> Any:
    def reject(*_: Any, **__: Any) -> Any:
        raise BlockedError(f"aten::{name} makes a quantized tensor, which this run blocks")

    return reject


def load_blocked(*args: Any, **kwargs: Any) -> Any:
    """`cpuaccel.quant.load_legacy` on such a torch."""
    from cpuaccel import quant

    with blocked():
        return quant.load_legacy(*args, **kwargs)
