"""Registers cpuaccel's pass when Inductor is first imported: `import torch` does not import it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from cpuaccel import _log

_ENTRY = "torch._inductor.compile_fx"
"""The module that every way into Inductor imports. Once loaded, it has imported the rest of it."""


def install() -> None:
    """Register with Inductor: now if it is imported already, else when it is."""
    if _ENTRY in sys.modules:
        _register()
    elif _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def _register() -> None:
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    # If another version of Inductor lacks something, compiling goes on without cpuaccel.
    try:
        importlib.import_module("cpuaccel._inductor.graph_pass").register()
    except Exception as error:
        _log.logger.warning("compiled graphs run torch's own kernels: %s", error)


class _Finder(MetaPathFinder):
    """Finds Inductor's module with the other finders, and registers after the module is loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _ENTRY:
            return None
        others = (each for each in list(sys.meta_path) if each is not self)
        specs = (each.find_spec(fullname, path, target) for each in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            _follow(spec.loader)
        return spec


def _follow(loader: Any) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        _register()

    loader.exec_module = exec_module


_finder = _Finder()
