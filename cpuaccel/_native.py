"""The C++ module `cpuaccel._C`: loaded once, where it was built for this torch and this CPU."""

from __future__ import annotations

import importlib
import platform
import threading
from collections.abc import Callable
from typing import Any, Protocol, cast

import torch

from cpuaccel import config

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
    def install_allocator(self) -> str: ...
    def uninstall_allocator(self) -> None: ...
    def allocator_installed(self) -> bool: ...
    def memory_stats(self) -> dict[str, int]: ...
    def reset_memory_peaks(self) -> None: ...
    def empty_memory_cache(self) -> int: ...
    def find_partitions(self, program: str) -> list[tuple[bool, list[int]]]: ...
    def why_not_compiled(self, program: str) -> list[str]: ...
    def own_step_kinds(self) -> list[str]: ...
    def same_objects(
        self,
        tables: tuple[dict[str, Any], ...],
        held: tuple[object, ...],
        end: object,
        versions: bytearray,
    ) -> bool: ...
    def time_steps(self, on: bool) -> None: ...
    def step_times(self) -> list[dict[str, Any]]: ...
    def machine_peaks(self, footprint: float) -> dict[str, float]: ...
    def teams_opened(self) -> int: ...
    def overridden_ops(self) -> list[str]: ...
    def set_log_sink(self, sink: Callable[[str], None] | None) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    def reset_stats(self) -> None: ...
    def clear_caches(self) -> None: ...
    def build_info(self) -> dict[str, Any]: ...
    def fastmath_asked(self) -> bool: ...
    def fastmath_on(self) -> bool: ...
    def has_bf16_arithmetic(self) -> bool: ...
    def has_fp16_arithmetic(self) -> bool: ...
    def rounds_while_packing(self) -> bool: ...
    def why_no_packed_convolutions(self) -> str: ...
    def set_matmul_rows(self, rows: list[tuple[str, int, int, str]]) -> None: ...
    def count_fallback(self, op: str, reason: str) -> None: ...
    def add_packed_weight_bytes(self, bytes: int) -> None: ...
    def why_torch_attention(
        self, N: int, H: int, L: int, S: int, E: int, bf16: bool, mask: bool, causal: bool
    ) -> str: ...
    def try_attention(
        self, N: int, H: int, L: int, S: int, E: int, bf16: bool, mask: bool, causal: bool
    ) -> tuple[float, float]: ...
    def known_ranks(self) -> dict[str, int]: ...
    def set_known_ranks(self, ranks: dict[str, int]) -> None: ...
    def gemm_panel(self) -> int: ...
    def gemm_panels(self) -> list[int]: ...
    def pairs_panels(self) -> list[int]: ...
    def packs_pairs(self) -> bool: ...
    def pairs_panel(self) -> int: ...
    def pairs_depth(self, in_features: int) -> int: ...
    def cpu_vendor(self) -> str: ...
    def cpu_core(self) -> str: ...
    def cpu_features(self) -> list[str]: ...
    def isa(self) -> str: ...
    def torch_engine(self) -> str: ...


_lock = threading.RLock()
_native: Native | None = None
_failure = ""


def native() -> Native | None:
    """Return the C++ module if it is loaded. Never loads it."""
    return _native


def load() -> Native:
    """Load the C++ module, once, and hand it the configuration.

    Raises:
        RuntimeError: it was built for another torch, cannot be loaded, or cannot serve this CPU.
    """
    global _native, _failure
    with _lock:
        if _native is not None:
            return _native
        if not _failure:
            try:
                _native = _load()
                return _native
            except Warning:
                raise  # warnings are errors here; what was warned about is no failure
            except Exception as error:
                _failure = str(error) or repr(error)
        raise RuntimeError(_failure)


def failure() -> str:
    """Return why `load` failed, or an empty string."""
    return _failure


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
