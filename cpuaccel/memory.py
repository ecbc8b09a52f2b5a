"""The CPU allocator's cache: freed blocks of 512 KiB and more are kept for the next tensors.

torch gives large tensors back to the system at once, which maps and zeroes fresh pages for the next
ones: work that takes longer than many an operator. The allocator is on where cpuaccel is, but for
CPUACCEL_ALLOCATOR=0 and where another malloc (jemalloc, tcmalloc) is loaded already.
"""

from __future__ import annotations

from cpuaccel import config
from cpuaccel._native import Native, native

__all__ = ["empty_cache", "is_enabled", "reset_peak_stats", "stats", "why_off"]

_KEYS = ("allocated", "reserved", "peak_allocated", "peak_reserved", "hits", "misses", "trims")

_refusal = ""


def stats() -> dict[str, int]:
    """Return what the allocator holds and did. Tensors below 512 KiB are not counted.

    Keys: `allocated` (bytes of tensors), `reserved` (the same and what is kept), `peak_allocated`,
    `peak_reserved`, `hits` and `misses` (tensors that got a kept block, or a fresh one), `trims`
    (kept blocks that went back to the system).
    """
    module = native()
    return dict.fromkeys(_KEYS, 0) if module is None else module.memory_stats()


def reset_peak_stats() -> None:
    """Set `peak_allocated` and `peak_reserved` to what is allocated and reserved now."""
    module = native()
    if module is not None:
        module.reset_memory_peaks()


def empty_cache() -> int:
    """Give everything that is kept back to the system, and return its bytes."""
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
    return _refusal or "cpuaccel is off"


def install(module: Native) -> None:
    """Put the allocator over torch's, unless it is switched off or somebody else's is there."""
    global _refusal
    _refusal = module.install_allocator() if config.get("allocator") else ""


def uninstall(module: Native) -> None:
    """Give torch its own allocator back. Tensors that exist are untouched."""
    module.uninstall_allocator()
