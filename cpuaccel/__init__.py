"""cpuaccel: faster PyTorch models on CPUs, without changes to the model's code.

`import torch` switches it on. `disable()`, or CPUACCEL=0 in the environment, switches it off.
`explain(model)` says which library runs each layer, `stats()` which calls ran so far.
"""

# torch comes first: importing it runs this package's entry point, which needs the modules below to
# be imported from their beginning.
import importlib as _importlib
import typing as _typing

import torch as _torch  # noqa: F401

from cpuaccel import memory
from cpuaccel import quant as quant  # cpuaccel.quant.fuse needs no import of its own
from cpuaccel._switch import disable, enable, enabled, is_enabled
from cpuaccel._version import __version__
from cpuaccel.diagnostics import clear_caches, explain, reset_stats, stats
from cpuaccel.precision import fastmath
from cpuaccel.prepacking import prepack, unpack

__all__ = [
    "__version__",
    "aot_compile",
    "clear_caches",
    "cmake_prefix_path",
    "disable",
    "enable",
    "enabled",
    "explain",
    "fastmath",
    "is_enabled",
    "load",
    "memory",
    "optimize",
    "prepack",
    "reset_stats",
    "save",
    "stats",
    "unpack",
]

if _typing.TYPE_CHECKING:  # for type checkers and the API reference; __getattr__ imports them
    from cpuaccel.compile.frontend.optimize import optimize
    from cpuaccel.compile.package.aot import aot_compile
    from cpuaccel.compile.package.load import load
    from cpuaccel.compile.package.save import save

_COMPILE = {
    "optimize": "frontend.optimize",
    "save": "package.save",
    "load": "package.load",
    "aot_compile": "package.aot",
}
"""Functions for graphs, and the module of cpuaccel.compile that each is in."""


def __getattr__(name: str) -> _typing.Any:
    # Imported on first use, so that only programs that use them pay for the import.
    if name == "gnn":
        return _importlib.import_module("cpuaccel.gnn")
    if name in _COMPILE:
        return getattr(_importlib.import_module(f"cpuaccel.compile.{_COMPILE[name]}"), name)
    if name == "cmake_prefix_path":
        return _importlib.import_module("cpuaccel._files").cmake_prefix_path()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
