"""`torch.compile(model, backend="cpuaccel")` of models of transformers that generate.

Dynamo compiles such a model anew for lengths and kinds of the cache. So calls run the captures of
`generating_models.py`: one for prompts and one for steps. What they do not hold, such as a call
with labels, runs what torch.compile made.
"""

from __future__ import annotations

import functools
from typing import Any

from torch import nn

from cpuaccel.compile.capture.traceable import is_distributed
from cpuaccel.compile.frontend import generating_models, known_models, same_class
from cpuaccel.compile.frontend.capture_maker import SIZES_BUDGET, TIME_BUDGET

_KNOWN_OPTIONS = frozenset({"backend", "dynamic", "fullgraph", "disable", "mode", "options"})


def planned(model: Any, compiled: Any, options: dict[str, Any]) -> Any:
    """Return what torch.compile returns for a model, or a method of it, that generates; else None.

    `compiled` is what torch itself returned.
    """
    if options.keys() - _KNOWN_OPTIONS or options.get("mode") or options.get("options"):
        return None
    owner = model if isinstance(model, nn.Module) else getattr(model, "__self__", None)
    if not isinstance(owner, nn.Module) or not generating_models.generates(owner):
        return None
    if is_distributed(owner):
        return None  # Dynamo compiles the layers between the collectives
    if model is owner:
        run = _planned_call(owner, compiled.forward)
        compiled.forward = run
        # OptimizedModule hands other attributes to the model, whose `generate` runs the model.
        vars(compiled)["generate"] = run.fast.generate
        return compiled
    method = getattr(model, "__func__", None)
    # `owner.compile()` compiles torch's `_call_impl`.
    if method is type(owner).forward or getattr(method, "__name__", "") == "_call_impl":
        return _planned_call(owner, compiled)
    return None


def _planned_call(model: Any, compiled: Any) -> Any:
    """Return a function that runs the captures of a model, and what torch.compile made of it."""
    plain = _without_compiled_calls(model)
    plans = known_models.plans_for(plain, TIME_BUDGET, SIZES_BUDGET)
    plans.otherwise = compiled

    @functools.wraps(type(model).forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        plain.training = model.training
        return plans.run("forward", args, kwargs)

    run.fast = same_class.with_plans(plans)  # type: ignore[attr-defined]
    return run


def _without_compiled_calls(model: Any) -> Any:
    """Return an object with the weights and layers of a model whose call compiles nothing."""
    found = object.__new__(type(model))
    found.__dict__.update(vars(model))
    for name in ("forward", "_compiled_call_impl"):
        found.__dict__.pop(name, None)
    return found
