"""What the backend of torch.compile and `cpuaccel.optimize` made of a model, in an explanation."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

from torch import nn

from cpuaccel._explanation import Row


def compiled_rows(module: nn.Module) -> Iterator[Row] | None:
    """Return the rows of a compiled, optimized or loaded model; None if `module` is none."""
    optimized: Any = sys.modules.get("cpuaccel.graph.optimized")
    if optimized is not None and isinstance(module, optimized.Optimized):
        return _rows(list(module.reports), "torch")
    loading: Any = sys.modules.get("cpuaccel.graph.loading")
    if loading is not None and isinstance(module, loading.Loaded):
        return _rows(module.reports, "inductor" if module.kind == loading.PACKAGE else "torch")
    dynamo: Any = sys.modules.get("torch._dynamo")
    if dynamo is None or not isinstance(module, dynamo.OptimizedModule):
        return None
    report: Any = sys.modules.get("cpuaccel.graph.report")
    if report is None:
        return iter(())
    # Of a quantized model its lowered form was compiled.
    lowered = getattr(module.forward, "compiled", None)
    compiled: Any = module if lowered is None else lowered
    # Dynamo's numbers begin anew after a reset: the last of a number counts.
    latest = {each.compile_id: each for each in report.reports_of(compiled._orig_mod)}
    ids = sorted(_compile_ids(compiled) & latest.keys())
    return _rows([latest[each] for each in ids], "inductor")


def _compile_ids(module: Any) -> set[str]:
    """Return Dynamo's numbers of what it compiled of the code that the module's forward runs."""
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list

    # Of modules of torch's own Dynamo compiles a function that it has put around them.
    around = getattr(module.forward, "_torchdynamo_orig_callable", None)
    forward = getattr(module._orig_mod.forward, "__func__", module._orig_mod.forward)
    codes: Any = {getattr(each, "__code__", None) for each in (around, forward)} - {None}
    entries = [entry for code in codes for entry in _debug_get_cache_entry_list(code)]
    return {str(entry.compile_id) for entry in entries}


def _rows(reports: list[Any], otherwise: str) -> Iterator[Row]:
    ours = importlib.import_module("cpuaccel.graph.bridge").OWN if reports else ()
    kept = importlib.import_module("cpuaccel.graph.kept_linears").KIND if reports else ""
    for number, report in enumerate(reports):
        graph = report.compile_id or str(number)
        for call, region in enumerate(report.regions):
            for part in region:
                own = part.kinds[0] == kept or all(kind in ours for kind in part.kinds)
                yield Row(
                    f"graph {graph} call {call}",
                    "+".join(part.kinds),
                    "cpuaccel" if own else "onednn",
                    reason=part.reason,
                    problem=part.dtype,
                )
        for left in report.left:
            yield Row(f"graph {graph} {left.name}", left.op, otherwise, reason=left.reason)
