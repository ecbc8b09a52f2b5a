"""Gives int8 graphs on plain tensors plans for calls in eager mode.

Such a model computes in float: each layer between a dequantize and a quantize. Here, the forward of
its class is replaced by one that runs what `cpuaccel.optimize` would make, in int8, from the first
call on. Whatever traces the model (torch.compile, torch.export, torch.fx), and calls that need
gradients, get the forward that torch generated. The graph, the code, the state dict and what is
pickled stay torch's own.

`pt2e_models.py` and `legacy_models.py` give plans to the models of convert_pt2e and load_legacy.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Proxy

from cpuaccel import _engine_state, _log, config
from cpuaccel._compat import (
    OpOverload,
    function_stack_length,
    get_tracing_state,
    has_any_global_hook,
)
from cpuaccel.compile.common.plain_calls import are_plain

_PLANS = "_cpuaccel_plans"

_Forward = Callable[..., Any]


@dataclass(frozen=True)
class Origin:
    """Where models come from, and which of them have plans."""

    name: str
    setting: str
    """The setting of `cpuaccel.config` that switches their plans off."""
    accepts: Callable[[GraphModule], bool]
    """Whether a graph with quantizers may have a plan."""


def may_have_plans(model: object) -> bool:
    """Return whether eager calls of a model run by plans."""
    return vars(type(model)).get(_PLANS) is not None


def plans_of(model: object) -> nn.Module | None:
    """Return the `Optimized` module that runs a model's calls; None before the first such call."""
    plans = vars(type(model)).get(_PLANS)
    return plans.optimized if plans is not None else None


def give_plans(model: nn.Module, origin: Origin) -> None:
    """Let a model run plans in eager mode, and copies of it, and after changes of its graph.

    Does nothing if the model has no quantizers, or `origin` does not accept it.
    """
    if not isinstance(model, GraphModule) or not _accepts(origin, model):
        return
    kind: Any = type(model)
    if kind in (GraphModule, nn.Module) or _PLANS in vars(kind):  # each instance has a class
        return

    def recompile(self: GraphModule) -> Any:
        code = super(kind, self).recompile()
        _replace_forward(self, origin)
        return code

    def deepcopy(self: GraphModule, memo: dict[int, Any]) -> Any:
        made = super(kind, self).__deepcopy__(memo)
        give_plans(made, origin)
        return made

    def shallow_copy(self: GraphModule) -> Any:
        made = super(kind, self).__copy__()
        give_plans(made, origin)
        return made

    kind.recompile, kind.__deepcopy__, kind.__copy__ = recompile, deepcopy, shallow_copy
    _replace_forward(model, origin)


def _accepts(origin: Origin, model: GraphModule) -> bool:
    return origin.accepts(model) and any(
        isinstance(node.target, OpOverload) and node.target.namespace == "quantized_decomposed"
        for node in model.graph.nodes
    )


def _replace_forward(model: GraphModule, origin: Origin) -> None:
    """Replace the forward that was generated from the graph as it is now."""
    kind: Any = type(model)
    plain: _Forward = kind.forward
    if not _accepts(origin, model):
        setattr(kind, _PLANS, None)
        return
    plans = _Plans(model, plain, origin)

    @functools.wraps(plain)
    def forward(self: GraphModule, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or not plans.take(self, args):
            return plain(self, *args, **kwargs)
        return plans.run(self, args, kwargs)

    kind.forward = forward
    setattr(kind, _PLANS, plans)


class _Plain(nn.Module):
    """A model with the forward that torch generated."""

    def __init__(self, model: GraphModule, plain: _Forward) -> None:
        super().__init__()
        self.model = model
        self._plain = plain
        self.training = False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._plain(self.model, *args, **kwargs)


class _Plans:
    """Runs the calls of a model by plans, which are made in the first call."""

    def __init__(self, model: GraphModule, plain: _Forward, origin: Origin) -> None:
        self._origin = origin
        self._identity = id(model)  # the model refers to this: no cycle before there are plans
        self._plain = plain
        self._lock = threading.Lock()
        self.optimized: nn.Module | None = None

    def take(self, model: GraphModule, args: tuple[Any, ...]) -> bool:
        """Say whether a call runs here."""
        if any(isinstance(each, Proxy) for each in args):  # torch.fx traces the model
            return False
        if any(isinstance(each, Tensor) and not each.is_cpu for each in args):
            return False
        return (
            id(model) == self._identity  # torch.export traces mirrors of the model
            and _engine_state.is_enabled()
            and bool(config.get(self._origin.setting))
            and not are_plain()
            and get_tracing_state() is None
            and function_stack_length() == 0
            and not has_any_global_hook()  # they would be called for modules that only plans have
        )

    def run(self, model: GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if torch.is_grad_enabled() and _needs_gradients(model, args):
            return self._plain(model, *args, **kwargs)
        return self._optimized(model)(*args, **kwargs)

    def _optimized(self, model: GraphModule) -> nn.Module:
        with self._lock:
            if self.optimized is None:
                from cpuaccel.compile.frontend.optimized_module import Optimized

                # A plan is always faster than float layers between quantizers: no timing.
                self.optimized = Optimized(_Plain(model, self._plain), 0.0, 0.0)
                _log.logger.info("%s: a plan is made in the first call", self._origin.name)
            return self.optimized


def _needs_gradients(model: GraphModule, args: tuple[Any, ...]) -> bool:
    tensors = (*args, *model.parameters())
    return any(isinstance(each, Tensor) and each.requires_grad for each in tensors)
