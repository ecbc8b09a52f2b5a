"""Tells cpuaccel when FSDP2 fills a weight anew, from the import of `torch.distributed.fsdp` on.

`fully_shard` frees a weight after its use. Before the next use it allocates the same tensor again,
often at the same address, gathers the shards into it, and restores its version. Nothing but the
bytes tells packed weights that the weight is another one after an optimizer's step.
"""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import Any

from cpuaccel import _native
from cpuaccel._compat import FSDP_UNSHARDED, FSDP_WEIGHT_CLASS, FSDP_WEIGHTS_MODULE
from cpuaccel._import_hook import after_import


def install() -> None:
    """Replace the method of FSDP2, now or when FSDP2 is imported."""
    after_import(FSDP_WEIGHTS_MODULE, _replace)


def uninstall() -> None:
    """Do nothing: weights that are packed already stay watched while cpuaccel is off."""


def _replace(module: ModuleType) -> None:
    cls: Any = getattr(module, FSDP_WEIGHT_CLASS, None)
    before = getattr(cls, FSDP_UNSHARDED, None)
    if before is None or hasattr(before, "__wrapped__"):
        return

    @wraps(before)
    def to_unsharded(self: Any) -> None:
        # The gathered weight is a view of these tensors.
        for tensor in self.all_gather_outputs:
            _native.load().note_hidden_write(tensor)
        before(self)

    setattr(cls, FSDP_UNSHARDED, to_unsharded)
