"""Dependencies of the wheel: the torch minor found at build time, pinned.

The extension links torch's C++ ABI, which changes with every minor release, so a wheel built
against 2.13.0 asks for torch 2.13.* and for nothing else.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Mapping
from typing import Any

RUNTIME = ["rich>=13"]


def torch_requirement(version: str) -> str:
    """Requirement string for the torch release ``version`` (for example ``2.13.0+cpu``)."""
    match = re.match(r"(\d+)\.(\d+)\.", version)
    if match is None:
        raise RuntimeError(f"torch version {version!r} is not of the form MAJOR.MINOR.PATCH")
    return f"torch=={match[1]}.{match[2]}.*"


def dynamic_metadata(field: str, settings: Mapping[str, Any]) -> list[str]:
    """Value of ``field`` (only ``dependencies``) for the wheel being built."""
    if field != "dependencies" or settings:
        raise RuntimeError(f"torch_pin provides dependencies without settings, not {field!r}")
    return [torch_requirement(importlib.metadata.version("torch")), *RUNTIME]
