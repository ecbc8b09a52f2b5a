"""Rows of `explain` for compiled, optimized and loaded models."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from cpuaccel._compat import DYNAMO_MODULE
from cpuaccel._explain.explanation import Row


def compiled_rows(module: Any) -> Iterator[Row] | None:
    """Return the rows of a compiled, optimized or loaded model; None for any other module.

    Also None if an optimized model runs as it is.
    """
    if _is_optimized(module):
        reports = list(module.reports)
        return _rows(reports, "torch") if reports else None
    loading: Any = sys.modules.get("cpuaccel.compile.package.load")
    if loading is not None and isinstance(module, loading.Loaded):
        return _rows(module.reports, "inductor" if module.kind == loading.PACKAGE else "torch")
    dynamo: Any = sys.modules.get(DYNAMO_MODULE)
    if dynamo is None or not isinstance(module, dynamo.OptimizedModule):
        return None
    report: Any = sys.modules.get("cpuaccel.compile.common.report")
    if report is None:
        return iter(())
    # For a quantized model, its lowered form was compiled.
    lowered = getattr(module.forward, "compiled", None)
    compiled: Any = module if lowered is None else lowered
    # Dynamo reuses ids after a reset, so the last report with an id is the valid one.
    latest = {each.compile_id: each for each in report.reports_of(compiled._orig_mod)}
    ids = sorted(_compile_ids(compiled) & latest.keys())
    return _rows([latest[each] for each in ids], "inductor")


def optimized_footer(model: nn.Module) -> Iterator[str]:
    """Yield the verdicts of `cpuaccel.optimize` on `model` and its submodules."""
    modules: Any = model.modules()
    for module in modules:
        if _is_optimized(module):
            yield from (f"optimize: {verdict}" for verdict in module.verdicts)


def what_runs(model: nn.Module, example_inputs: tuple[Any, ...] | None) -> nn.Module:
    """Return the optimized module that runs eager calls of a PT2E model; any other model itself.

    A PT2E model that has no plan yet is called with `example_inputs`, if there are any.
    """
    pt2e: Any = sys.modules.get("cpuaccel.compile.frontend.pt2e_models")
    if pt2e is None or not pt2e.may_have_plans(model):
        return model
    if example_inputs is not None and pt2e.plans_of(model) is None:
        with torch.no_grad():
            model(*example_inputs)
    return pt2e.plans_of(model) or model


def _is_optimized(module: object) -> bool:
    optimized: Any = sys.modules.get("cpuaccel.compile.frontend.optimized_module")
    return optimized is not None and isinstance(module, optimized.Optimized)


def _compile_ids(module: Any) -> set[str]:
    """Return the ids of Dynamo's compilations of the code of the module's forward."""
    from cpuaccel._compat import cache_entries

    # For torch's own modules Dynamo compiles a function that wraps them.
    around = getattr(module.forward, "_torchdynamo_orig_callable", None)
    forward = getattr(module._orig_mod.forward, "__func__", module._orig_mod.forward)
    codes: Any = {getattr(each, "__code__", None) for each in (around, forward)} - {None}
    entries = [entry for code in codes for entry in cache_entries(code)]
    return {str(entry.compile_id) for entry in entries}


def _rows(reports: list[Any], otherwise: str) -> Iterator[Row]:
    """Yield a row for each partition and each fallback; `otherwise` runs the fallbacks."""
    if not reports:
        return
    from cpuaccel.compile.bridge import CPUACCEL_OPS
    from cpuaccel.compile.passes.packed_linears import KIND

    for number, report in enumerate(reports):
        graph = report.compile_id or str(number)
        for call, region in enumerate(report.regions):
            for part in region:
                on_cpuaccel = part.kinds[0] == KIND or all(
                    kind in CPUACCEL_OPS for kind in part.kinds
                )
                yield Row(
                    f"graph {graph} call {call}",
                    "+".join(part.kinds),
                    "cpuaccel" if on_cpuaccel else "onednn",
                    reason=part.reason,
                    problem=part.dtype,
                )
        for left in report.left:
            yield Row(f"graph {graph} {left.name}", left.op, otherwise, reason=left.reason)
