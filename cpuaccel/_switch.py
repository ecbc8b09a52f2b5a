"""Switches cpuaccel on and off: registers its kernels over torch's, and restores torch's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cpuaccel import _engine_state, _log, _tuning_cache, config, matmul, memory
from cpuaccel._engine_state import is_enabled
from cpuaccel._inductor import hook
from cpuaccel._native import load, native

__all__ = ["disable", "enable", "enabled", "is_enabled"]

_lock = threading.RLock()


def enable() -> None:
    """Switch cpuaccel on: quantized models use it under torch's engine "x86", on Arm "onednn".

    Raises:
        RuntimeError: cpuaccel cannot run here; the message says why and what to do.
    """
    with _lock:
        module = load()
        _log.connect(module.set_log_sink)
        try:
            module.install()
        except RuntimeError as error:
            message = f"cpuaccel cannot replace torch's kernels: {error}"
            _engine_state.set_switch_error(message)
            raise RuntimeError(message) from error
        matmul.install(module)
        if config.get("learn"):
            _tuning_cache.load()
        memory.install(module)
        hook.install()
        for fix in _torch_fixes():
            fix.install()
        _engine_state.set_on()
        _log.logger.info("cpuaccel is on (%s)", module.isa())


def disable() -> None:
    """Switch cpuaccel off: torch's own kernels are back. Does nothing if it is off."""
    with _lock:
        module = native()
        if module is not None:
            module.uninstall()
            memory.uninstall(module)
            for fix in _torch_fixes():
                fix.uninstall()
        _engine_state.set_off()
        _log.logger.info("cpuaccel is off")


@contextmanager
def enabled(flag: bool = True) -> Iterator[None]:
    """Switch cpuaccel on (or off) for a block, for the whole process, and restore it after.

    Raises:
        RuntimeError: `flag` is true and cpuaccel cannot run here.
    """
    before = is_enabled()
    _switch(flag)
    try:
        yield
    finally:
        _switch(before)


def _torch_fixes() -> tuple[Any, ...]:
    """Return the modules that override Python functions of other packages while it is on."""
    # Another torch than this build's may lack what these import; `enable` rejects it before.
    from cpuaccel import _encoder_padding, _fsdp_weights, _openmp_fork
    from cpuaccel.quant import _conv_modules, _sent_tensors
    from cpuaccel.quant._gptqmodel import import_hook as gptqmodel
    from cpuaccel.quant._torchao import import_hook as torchao

    fixes = (_conv_modules, _sent_tensors, _encoder_padding, _openmp_fork, _fsdp_weights)
    return *fixes, torchao, gptqmodel


def _switch(flag: bool) -> None:
    if flag != is_enabled():
        (enable if flag else disable)()
