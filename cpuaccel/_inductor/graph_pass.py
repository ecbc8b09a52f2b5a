"""cpuaccel's pass over Inductor's forward and backward graphs, registered for its CPU backend.

It is registered as out-of-tree backends register theirs, and not in `torch._inductor.config`. That
belongs to the user, who may set or patch a pass there at any time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch.fx import GraphModule

from cpuaccel import _engine_state
from cpuaccel._compat import CustomGraphModulePass, inductor_codegen, inductor_globals
from cpuaccel._inductor import keys, row_sums

_DEVICE = "cpu"
_HERE = Path(__file__).parent


class GraphPass(CustomGraphModulePass):
    """Runs the pass that was registered before, and then cpuaccel's."""

    def __init__(self, before: Any) -> None:
        self._before = before

    def __call__(self, gm: GraphModule) -> None:
        if self._before is not None:
            self._before(gm)
        if _on():
            row_sums.rewrite(gm.graph)

    def uuid(self) -> Any:
        """Return the key that tells graphs compiled with this pass apart in Inductor's caches."""
        before = None if self._before is None else self._before.uuid()
        return before, keys.sources(_HERE) if _on() else None


def register() -> None:
    """Register the pass after the one that is registered for the CPU, once."""
    inductor_codegen.init_backend_registration()
    before = inductor_codegen.custom_backend_passes.get(_DEVICE)
    if not isinstance(before, GraphPass):
        inductor_codegen.custom_backend_passes[_DEVICE] = GraphPass(before)


def _on() -> bool:
    # A graph compiled ahead of time has to run where cpuaccel is not installed.
    return _engine_state.is_enabled() and not inductor_globals.aot_compilation
