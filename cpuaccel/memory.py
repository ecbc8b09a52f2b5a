"""The CPU allocator: it caches freed blocks of 512 KiB and more for the next tensors.

torch returns large tensors to the system at once. The system then maps and zeroes fresh pages for
the next ones, which takes longer than many operators. The allocator is on while cpuaccel is, except
with CPUACCEL_ALLOCATOR=0, or if another malloc (jemalloc, tcmalloc) is already loaded.
"""

from __future__ import annotations

from cpuaccel import config
from cpuaccel._native import Native, native

__all__ = ["empty_cache", "is_enabled", "reset_peak_stats", "stats", "why_off"]

_KEYS = ("allocated", "reserved", "peak_allocated", "peak_reserved", "hits", "misses", "trims")

_install_error = ""


def stats() -> dict[str, int]:
    """Return the allocator's statistics. Tensors below 512 KiB are not counted.

    Keys: `allocated` (bytes of tensors), `reserved` (these and cached blocks), `peak_allocated`,
    `peak_reserved`, `hits` and `misses` (tensors that got a cached block, or a fresh one), `trims`
    (cached blocks that were returned to the system).
    """
    module = native()
    return dict.fromkeys(_KEYS, 0) if module is None else module.memory_stats()


def reset_peak_stats() -> None:
    """Set `peak_allocated` and `peak_reserved` to what is allocated and reserved now."""
    module = native()
    if module is not None:
        module.reset_memory_peaks()


def empty_cache() -> int:
    """Return all cached blocks to the system, and return their size in bytes.

    What the C library holds of freed memory is returned too (glibc's ``malloc_trim``).
    """
    module = native()
    return 0 if module is None else module.empty_memory_cache()


def is_enabled() -> bool:
    """Return whether new tensors come from this allocator."""
    module = native()
    return module is not None and module.allocator_installed()


def why_off() -> str:
    """Return why new tensors do not come from this allocator, or an empty string if they do."""
    if is_enabled():
        return ""
    if not config.get("allocator"):
        return "CPUACCEL_ALLOCATOR in the environment switches it off"
    return _install_error or "cpuaccel is off"


def install(module: Native) -> None:
    """Replace torch's allocator, unless that is switched off or another one replaced it already."""
    global _install_error
    _install_error = module.install_allocator() if config.get("allocator") else ""


def uninstall(module: Native) -> None:
    """Restore torch's own allocator. Existing tensors are not affected."""
    module.uninstall_allocator()
