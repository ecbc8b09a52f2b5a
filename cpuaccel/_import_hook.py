"""Calls functions when modules are first imported that `import torch` does not import."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

After = Callable[[ModuleType], None]


def after_import(name: str, function: After) -> None:
    """Call `function` with the module `name`: now if it is imported already, else when it is.

    A function that was given before for this module is not called twice.
    """
    module = sys.modules.get(name)
    if module is not None:
        function(module)
        return
    waiting = _finder.functions.setdefault(name, [])
    if function not in waiting:
        waiting.append(function)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


class ImportHook:
    """Changes modules of another package, now or when they are imported, until `uninstall`."""

    def __init__(self, names: Iterable[str], change: After, restore: Callable[[], None]) -> None:
        """Take what changes a module of `names`, and what restores all; no two run at once."""
        self._names, self._change, self._restore = tuple(names), change, restore
        self._lock = threading.RLock()
        self._installed = False

    def install(self) -> None:
        """Change the modules that are imported, and the others when they are."""
        with self._lock:
            self._installed = True
            for name in self._names:
                after_import(name, self._imported)

    def uninstall(self) -> None:
        """Restore the modules."""
        with self._lock:
            self._installed = False
            self._restore()

    def _imported(self, module: ModuleType) -> None:
        with self._lock:
            if self._installed:
                self._change(module)


class _Finder(MetaPathFinder):
    """Finds the modules of `functions` with the other finders, and wraps their loaders."""

    def __init__(self) -> None:
        self.functions: dict[str, list[After]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.functions:
            return None
        others = (each for each in list(sys.meta_path) if each is not self)
        specs = (each.find_spec(fullname, path, target) for each in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            self._call_after(fullname, spec.loader)
        return spec

    def _call_after(self, name: str, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            functions = self.functions.pop(name, [])
            if not self.functions and self in sys.meta_path:
                sys.meta_path.remove(self)
            for function in functions:
                function(module)

        loader.exec_module = exec_module


_finder = _Finder()
