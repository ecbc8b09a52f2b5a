"""The switch: puts the plugin's kernels over torch's, and gives torch's back."""

from __future__ import annotations

import importlib
import os
import platform
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, cast

import torch

from cpuaccel import _log, config

REINSTALL = (
    "pip install --force-reinstall --no-deps --no-build-isolation --no-cache-dir"
    " --no-binary cpuaccel cpuaccel"
)
"""Builds against the torch that is installed, and neither replaces it nor takes a cached build."""


class Native(Protocol):
    """What the C++ module `cpuaccel._C` offers."""

    def install(self) -> None: ...
    def uninstall(self) -> None: ...
    def is_installed(self) -> bool: ...
    def overridden_ops(self) -> list[str]: ...
    def set_log_sink(self, sink: Callable[[str], None] | None) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    def reset_stats(self) -> None: ...
    def clear_caches(self) -> None: ...
    def build_info(self) -> dict[str, Any]: ...
    def cpu_features(self) -> list[str]: ...
    def isa(self) -> str: ...


_lock = threading.RLock()
_native: Native | None = None
_load_failed = False
_failure = ""
_disabled = False


def native() -> Native | None:
    """Return the C++ module if it is loaded. Never loads it."""
    return _native


def load() -> Native:
    """Load the C++ module, once, and hand it the configuration.

    Raises:
        RuntimeError: it was built for another torch, cannot be loaded, or cannot serve this CPU.
    """
    global _native, _failure, _load_failed
    with _lock:
        if _native is not None:
            return _native
        if not _load_failed:
            try:
                _native = _load()
                return _native
            except Warning:
                raise  # warnings are errors here; what was warned about is no failure
            except Exception as error:
                _load_failed = True
                _failure = str(error)
        raise RuntimeError(_failure)


def enable() -> None:
    """Switch the engine on: models under `torch.backends.quantized.engine = "x86"` use it.

    Raises:
        RuntimeError: the engine cannot run here; the message says why and what to do.
    """
    global _disabled, _failure
    with _lock:
        module = load()
        _log.connect(module.set_log_sink)
        try:
            module.install()
        except RuntimeError as error:
            _failure = f"cpuaccel cannot replace torch's kernels: {error}"
            raise RuntimeError(_failure) from error
        _disabled, _failure = False, ""
        _log.logger.info("the engine is on (%s)", module.isa())


def disable() -> None:
    """Switch the engine off: torch's own kernels are back. Does nothing if it is off."""
    global _disabled
    with _lock:
        if _native is not None:
            _native.uninstall()
        _disabled = True
        _log.logger.info("the engine is off")


def is_enabled() -> bool:
    """Return whether the engine's kernels are over torch's."""
    return _native is not None and _native.is_installed()


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
    if _failure:
        return _failure
    if not config.get("enabled"):
        return "CPUACCEL in the environment switches it off; cpuaccel.enable() switches it on"
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "1":
        return "TORCH_DEVICE_BACKEND_AUTOLOAD=0 in the environment; call cpuaccel.enable()"
    if _disabled:
        return "cpuaccel.disable() was called"
    return "torch did not load it: the package is not installed; call cpuaccel.enable()"


def _switch(flag: bool) -> None:
    if flag != is_enabled():
        (enable if flag else disable)()


def _load() -> Native:
    _check_torch()
    try:
        module = cast(Native, importlib.import_module("cpuaccel._C"))
    except Exception as error:
        # Whatever a module's start-up throws: a missing symbol, a library of another version.
        raise RuntimeError(
            f"cpuaccel's compiled module cannot be loaded: {error}. Build it again: {REINSTALL}"
        ) from error
    _check_cpu(module)
    config.attach(lambda setter, value: getattr(module, setter)(value))
    return module


def _check_torch() -> None:
    try:
        built = str(importlib.import_module("cpuaccel._build_info").TORCH_VERSION)
    except ImportError:
        raise RuntimeError(f"cpuaccel is not built. Build it: {REINSTALL}") from None
    running = str(torch.__version__)
    # torch keeps its C++ interface within a minor version, and only there.
    if _minor(built) != _minor(running):
        raise RuntimeError(
            f"cpuaccel was built for torch {_minor(built)} and this is torch {running}. "
            f"Build it for this torch: {REINSTALL}"
        )


def _check_cpu(module: Native) -> None:
    if platform.machine().lower() in ("x86_64", "amd64") and "avx2" not in module.cpu_features():
        raise RuntimeError(
            "this CPU has no AVX2, which cpuaccel needs. Set CPUACCEL=0 in the environment, or"
            " uninstall it: pip uninstall cpuaccel"
        )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
