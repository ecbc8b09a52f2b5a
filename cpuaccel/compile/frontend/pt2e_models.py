"""Gives the models that torchao's convert_pt2e returns a plan for calls in eager mode.

Such a model computes in float: each layer between a dequantize and a quantize. Here, the forward of
its class is replaced by one that runs what `cpuaccel.optimize` would make, in int8, from the first
call on. Whatever traces the model (torch.compile, torch.export, torch.fx), and calls that need
gradients, get the forward that torch generated. The graph, the code, the state dict and what is
pickled stay torch's own.
"""

from __future__ import annotations

import functools
import operator
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node, Proxy

from cpuaccel import _engine_state, _log, config
from cpuaccel._compat import (
    OpOverload,
    function_stack_length,
    get_tracing_state,
    has_any_global_hook,
)
from cpuaccel._import_hook import after_import
from cpuaccel.compile.common.plain_calls import are_plain

_TORCHAO_MODULE = "torchao.quantization.pt2e.quantize_pt2e"
_GUARDS = "_guards_fn"
"""The submodule with which torch.export checks the inputs of a model."""
_PLANS = "_cpuaccel_plans"

_Forward = Callable[..., Any]


def install() -> None:
    """Patch convert_pt2e, now or when torchao is imported."""
    after_import(_TORCHAO_MODULE, _patch)


def may_have_plans(model: object) -> bool:
    """Return whether eager calls of a model run by plans."""
    return vars(type(model)).get(_PLANS) is not None


def plans_of(model: object) -> nn.Module | None:
    """Return the `Optimized` module that runs a model's calls; None before the first such call."""
    plans = vars(type(model)).get(_PLANS)
    return plans.optimized if plans is not None else None


def _patch(module: ModuleType) -> None:
    convert = getattr(module, "convert_pt2e", None)
    if convert is None or hasattr(convert, "_cpuaccel"):
        return
    depth = threading.local()

    @functools.wraps(convert)
    def convert_pt2e(model: GraphModule, *args: Any, **kwargs: Any) -> GraphModule:
        # It calls itself for the bodies of loops, which are no models of their own.
        is_outermost = not getattr(depth, "inside", False)
        depth.inside = True
        try:
            converted: GraphModule = convert(model, *args, **kwargs)
        finally:
            depth.inside = not is_outermost
        if is_outermost:
            give_plans(converted)
        return converted

    convert_pt2e._cpuaccel = True  # type: ignore[attr-defined]
    module.convert_pt2e = convert_pt2e  # type: ignore[attr-defined]


def give_plans(model: nn.Module) -> None:
    """Let a PT2E model run plans in eager mode, and copies of it, and after changes of its graph.

    Does nothing if the graph calls more than ops.
    """
    if not isinstance(model, GraphModule) or not _calls_ops_only(model):
        return
    kind: Any = type(model)
    if kind in (GraphModule, nn.Module) or _PLANS in vars(kind):  # each instance has a class
        return

    def recompile(self: GraphModule) -> Any:
        code = super(kind, self).recompile()
        _replace_forward(self)
        return code

    def deepcopy(self: GraphModule, memo: dict[int, Any]) -> Any:
        made = super(kind, self).__deepcopy__(memo)
        give_plans(made)
        return made

    kind.recompile, kind.__deepcopy__ = recompile, deepcopy
    _replace_forward(model)


def _calls_ops_only(model: GraphModule) -> bool:
    if not all(map(_is_op, model.graph.nodes)):
        return False
    return any(
        isinstance(node.target, OpOverload) and node.target.namespace == "quantized_decomposed"
        for node in model.graph.nodes
    )


def _is_op(node: Node) -> bool:
    if node.op == "call_module":
        return node.target == _GUARDS
    if node.op != "call_function":
        return node.op != "call_method"
    target = node.target
    if isinstance(target, OpOverload):
        return True
    # Sizes of tensors, and parts of tuples.
    return getattr(target, "__module__", "") in ("_operator", "math") or target is operator.getitem


def _replace_forward(model: GraphModule) -> None:
    """Replace the forward that was generated from the graph as it is now."""
    kind: Any = type(model)
    plain: _Forward = kind.forward
    if not _calls_ops_only(model):
        setattr(kind, _PLANS, None)
        return
    plans = _Plans(model, plain)

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

    def __init__(self, model: GraphModule, plain: _Forward) -> None:
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
            and bool(config.get("pt2e_plans"))
            and not are_plain()
            and not torch.is_autocast_enabled("cpu")
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
                _log.logger.info("PT2E: the model's plan is made in its first call")
            return self.optimized


def _needs_gradients(model: GraphModule, args: tuple[Any, ...]) -> bool:
    tensors = (*args, *model.parameters())
    return any(isinstance(each, Tensor) and each.requires_grad for each in tensors)
