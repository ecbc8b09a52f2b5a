"""The error of a file that load_legacy cannot read or translate."""

from __future__ import annotations


class LegacyError(ValueError):
    """What is wrong with a file, and what to do. `load_legacy` adds the file's name."""
