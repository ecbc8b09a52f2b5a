"""Names of dtypes, layouts, memory formats and devices, as files have them: "float32", "cpu"."""

from __future__ import annotations

from typing import Any

import torch

TYPES = (torch.dtype, torch.device, torch.layout, torch.memory_format)
"""Types of the constants that have a name."""


def name_of(constant: Any) -> str:
    """Return the name by which `constant_of` finds a constant: torch's, without "torch."."""
    return str(constant).removeprefix("torch.")


def constant_of(name: str) -> Any:
    """Return the constant with this name.

    Raises:
        ValueError: there is none.
    """
    found = torch.device(name) if name == "cpu" else getattr(torch, name, None)
    if not isinstance(found, TYPES):
        raise ValueError(f"expected a dtype, layout, memory format or device, got {name!r}")
    return found


def dtype_of(name: str) -> torch.dtype:
    """Return the dtype with this name; ValueError if there is none."""
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"expected the name of a torch.dtype, got {name!r}")
    return found
