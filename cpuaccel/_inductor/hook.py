"""Registers cpuaccel's pass when Inductor is first imported: `import torch` does not import it."""

from __future__ import annotations

import importlib
from types import ModuleType

from cpuaccel import _log
from cpuaccel._compat import INDUCTOR_MODULE
from cpuaccel._import_hook import after_import


def install() -> None:
    """Register with Inductor: now if it is imported already, else when it is."""
    after_import(INDUCTOR_MODULE, _register)


def _register(_: ModuleType) -> None:
    # With a version of Inductor that lacks something, graphs compile without cpuaccel's pass.
    try:
        importlib.import_module("cpuaccel._inductor.graph_pass").register()
    except Exception as error:
        _log.logger.warning("Inductor graphs run without cpuaccel's pass: %s", error)
