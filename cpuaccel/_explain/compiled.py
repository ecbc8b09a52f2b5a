"""Rows of `explain` for compiled, optimized and loaded models."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from cpuaccel._compat import DYNAMO_MODULE
from cpuaccel._explain.explanation import Row

_EAGER_PLANS = "cpuaccel.compile.frontend.eager_plans"
_SAME_CLASS = "cpuaccel.compile.frontend.same_class"


def compiled_rows(module: Any, path: str = "") -> Iterator[Row] | None:
    """Return the rows of a compiled, optimized or loaded model; None for any other module.

    Also None if an optimized model runs as it is. A model whose eager calls run by plans has the
    rows of its plans.
    """
    optimized = _optimized(module)
    if optimized is not None:
        reports = list(optimized.reports)
        return _rows(reports, "torch", path) if reports else None
    plans = _plans(module)
    if plans is not None:
        reports = [each for made in plans.captures().values() for each in made.reports]
        return _rows(reports, "torch", path) if reports else None
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
        plans = _plans(module)
        if plans is not None:
            yield from (f"optimize: {remark}" for remark in plans.remarks())
        optimized = _optimized(module)
        if optimized is not None:
            yield from (f"optimize: {verdict}" for verdict in optimized.verdicts)


def what_runs(model: nn.Module, example_inputs: tuple[Any, ...] | None) -> nn.Module:
    """Return the optimized module that runs eager calls of a model; any other model itself.

    A model that has plans, or layers with plans, is called with `example_inputs` if there are any,
    so that the plans are made.
    """
    plans: Any = sys.modules.get(_EAGER_PLANS)
    if plans is None:
        return model
    if example_inputs is not None and any(
        plans.may_have_plans(part) and plans.plans_of(part) is None for part in model.modules()
    ):
        with torch.no_grad():
            model(*example_inputs)
    return plans.plans_of(model) or model


def _optimized(module: object) -> Any:
    """Return an optimized module, or the one that runs eager calls of `module`; else None."""
    if _is_optimized(module):
        return module
    plans: Any = sys.modules.get(_EAGER_PLANS)
    return None if plans is None else plans.plans_of(module)


def _plans(module: object) -> Any:
    """Return the plans of an optimized model of transformers; None for any other module."""
    same_class: Any = sys.modules.get(_SAME_CLASS)
    return None if same_class is None else same_class.plans_of(module)


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


def _rows(reports: list[Any], otherwise: str, path: str = "") -> Iterator[Row]:
    """Yield a row for each partition and each fallback; `otherwise` runs the fallbacks."""
    within = f"{path}: " if path else ""
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
                    f"{within}graph {graph} call {call}",
                    "+".join(part.kinds),
                    "cpuaccel" if on_cpuaccel else "onednn",
                    reason=part.reason,
                    problem=part.dtype,
                )
        for left in report.left:
            yield Row(f"{within}graph {graph} {left.name}", left.op, otherwise, reason=left.reason)
