"""The switch of the engine: registers cpuaccel's kernels over torch's, and restores torch's."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cpuaccel import _log, config, matmul, memory
from cpuaccel._inductor import hook
from cpuaccel._native import failure, load, native

_lock = threading.RLock()
_refusal = ""
_disabled = False

on = False
"""`is_enabled()` for code that torch.compile traces: it compiles again when this changes."""


def enable() -> None:
    """Switch the engine on: quantized models use it under torch's engine "x86", on Arm "onednn".

    Raises:
        RuntimeError: the engine cannot run here; the message says why and what to do.
    """
    global _disabled, _refusal, on
    with _lock:
        module = load()
        _log.connect(module.set_log_sink)
        try:
            module.install()
        except RuntimeError as error:
            _refusal = f"cpuaccel cannot replace torch's kernels: {error}"
            raise RuntimeError(_refusal) from error
        matmul.install(module)
        memory.install(module)
        hook.install()
        for mend in _mends():
            mend.install()
        _disabled, _refusal, on = False, "", True
        _log.logger.info("the engine is on (%s)", module.isa())


def disable() -> None:
    """Switch the engine off: torch's own kernels are back. Does nothing if it is off."""
    global _disabled, on
    with _lock:
        module = native()
        if module is not None:
            module.uninstall()
            memory.uninstall(module)
            for mend in _mends():
                mend.uninstall()
        _disabled, on = True, False
        _log.logger.info("the engine is off")


def is_enabled() -> bool:
    """Return whether the engine's kernels are registered over torch's."""
    module = native()
    return module is not None and module.is_installed()


@contextmanager
def enabled(flag: bool = True) -> Iterator[None]:
    """Switch the engine on (or off) for a block, for the whole process, and restore it after.

    Raises:
        RuntimeError: `flag` is true and the engine cannot run here.
    """
    before = is_enabled()
    _switch(flag)
    try:
        yield
    finally:
        _switch(before)


def why_off() -> str:
    """Return why the engine is off, or an empty string if it is on."""
    if is_enabled():
        return ""
    if reason := failure() or _refusal:
        return reason
    if not config.get("enabled"):
        return "CPUACCEL in the environment switches it off; cpuaccel.enable() switches it on"
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "1":
        return "TORCH_DEVICE_BACKEND_AUTOLOAD=0 in the environment; call cpuaccel.enable()"
    if _disabled:
        return "cpuaccel.disable() was called"
    return "torch did not load it: the package is not installed; call cpuaccel.enable()"


def _mends() -> tuple[Any, ...]:
    """Return the modules that override Python functions of torch while the engine is on."""
    # Another torch than this build's may lack what these import; `enable` rejects it before.
    from cpuaccel import _encoder_padding, _openmp_fork
    from cpuaccel.quant import _conv_modules, _sent_tensors

    return _conv_modules, _sent_tensors, _encoder_padding, _openmp_fork


def _switch(flag: bool) -> None:
    if flag != is_enabled():
        (enable if flag else disable)()
