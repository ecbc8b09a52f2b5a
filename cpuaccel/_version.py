"""cpuaccel's version, which the build writes into `_build_info.py`."""

from __future__ import annotations

__all__ = ["__version__"]

try:
    from cpuaccel._build_info import VERSION as __version__
except ImportError:
    __version__ = "0+unbuilt"
