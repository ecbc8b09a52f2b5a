"""Gives the models that torchao's convert_pt2e returns a plan for calls in eager mode."""

from __future__ import annotations

import functools
import operator
import threading
from types import ModuleType
from typing import Any

from torch.fx import GraphModule, Node

from cpuaccel._compat import OpOverload
from cpuaccel._import_hook import after_import
from cpuaccel.compile.frontend.eager_plans import Origin, give_plans

_TORCHAO_MODULE = "torchao.quantization.pt2e.quantize_pt2e"
_GUARDS = "_guards_fn"
"""The submodule with which torch.export checks the inputs of a model."""


def install() -> None:
    """Patch convert_pt2e, now or when torchao is imported."""
    after_import(_TORCHAO_MODULE, _patch)


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
            give_plans(converted, _PT2E)
        return converted

    convert_pt2e._cpuaccel = True  # type: ignore[attr-defined]
    module.convert_pt2e = convert_pt2e  # type: ignore[attr-defined]


def _calls_ops_only(model: GraphModule) -> bool:
    return all(map(_is_op, model.graph.nodes))


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


_PT2E = Origin("PT2E", "pt2e_plans", _calls_ops_only)
