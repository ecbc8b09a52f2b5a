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

_INDUCTOR_MODULE = "torch._inductor.compile_fx"
"""The module that every use of Inductor imports. It imports the rest of Inductor."""


def install() -> None:
    """Register with Inductor: now if it is imported already, else when it is."""
    if _INDUCTOR_MODULE in sys.modules:
        _register()
    elif _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def _register() -> None:
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    # With a version of Inductor that lacks something, graphs compile without cpuaccel's pass.
    try:
        importlib.import_module("cpuaccel._inductor.graph_pass").register()
    except Exception as error:
        _log.logger.warning("Inductor graphs run without cpuaccel's pass: %s", error)


class _Finder(MetaPathFinder):
    """Finds Inductor's module with the other finders, and registers after the module is loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _INDUCTOR_MODULE:
            return None
        others = (each for each in list(sys.meta_path) if each is not self)
        specs = (each.find_spec(fullname, path, target) for each in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            _register_after(spec.loader)
        return spec


def _register_after(loader: Any) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        _register()

    loader.exec_module = exec_module


_finder = _Finder()
