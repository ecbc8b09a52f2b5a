"""Whether cpuaccel is on, and the reason if it is off. `cpuaccel._switch` switches it."""

from __future__ import annotations

import os

from cpuaccel import config
from cpuaccel._native import failure, native

on = False
"""`is_enabled()` for code that torch.compile traces: it compiles again when this changes."""

_switch_error = ""
_disabled = False


def is_enabled() -> bool:
    """Return whether cpuaccel's kernels are registered over torch's."""
    module = native()
    return module is not None and module.is_installed()


def set_on() -> None:
    """Record that cpuaccel was switched on."""
    global on, _switch_error, _disabled
    on, _switch_error, _disabled = True, "", False


def set_off() -> None:
    """Record that cpuaccel was switched off."""
    global on, _disabled
    on, _disabled = False, True


def set_switch_error(reason: str) -> None:
    """Record the reason why cpuaccel could not be switched on."""
    global _switch_error
    _switch_error = reason


def why_off() -> str:
    """Return why cpuaccel is off, or an empty string if it is on."""
    if is_enabled():
        return ""
    if reason := failure() or _switch_error:
        return reason
    if not config.get("enabled"):
        return "CPUACCEL in the environment switches it off; cpuaccel.enable() switches it on"
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "1":
        return "TORCH_DEVICE_BACKEND_AUTOLOAD=0 in the environment; call cpuaccel.enable()"
    if _disabled:
        return "cpuaccel.disable() was called"
    return "torch did not load it: the package is not installed; call cpuaccel.enable()"
