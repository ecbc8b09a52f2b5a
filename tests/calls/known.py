"""Faults of torch's own kernels that the table of calls has found, with their reports.

docs/known-faults.md lists the same for readers; a test compares the two.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A fault of torch, with cpuaccel disabled."""

    cells: str
    """A pattern of cell ids."""
    report: str
    """For example "pytorch/pytorch#85852", or "none found"."""
    mended: bool
    """Whether cpuaccel gives the right result."""


FAULTS: tuple[Fault, ...] = (
    Fault("mm-out_is_input-*", "pytorch/pytorch#85852", mended=True),
    Fault("bmm-out_is_input-*", "pytorch/pytorch#85852", mended=True),
    Fault("addmm-out_is_input-*", "pytorch/pytorch#48900", mended=True),
    Fault("baddbmm-out_is_input-*", "pytorch/pytorch#48900", mended=True),
    Fault("dyn_quant_4bit-strided-*", "none found", mended=True),
    Fault("dyn_quant_4bit-transposed-*", "none found", mended=True),
    Fault("prepacked_attention-empty-*", "pytorch/pytorch#192651", mended=False),
)


def fault_of(cell: str) -> Fault | None:
    """The fault that a cell with this id shows."""
    return next((fault for fault in FAULTS if fnmatch.fnmatch(cell, fault.cells)), None)
