"""FastLayer, the base class of the layers on fused ops; `change` gives a layer such a class."""

from __future__ import annotations

import copy
import copyreg
import weakref
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch_geometric.nn import aggr

from cpuaccel import _native
from cpuaccel._compat import get_tracing_state
from cpuaccel.gnn import _edges

REDUCTIONS: dict[str, str] = {
    "add": "sum",
    "sum": "sum",
    "mean": "mean",
    "max": "amax",
    "min": "amin",
}
"""torch_geometric's names of aggregations, and cpuaccel's names of the same reductions."""

_AGGREGATIONS = {
    aggr.SumAggregation: "sum",
    aggr.MeanAggregation: "mean",
    aggr.MaxAggregation: "amax",
    aggr.MinAggregation: "amin",
}
_HOOKS = tuple(
    f"_{stage}_forward_{when}"
    for stage in ("propagate", "message", "aggregate", "message_and_aggregate", "edge_update")
    for when in ("pre_hooks", "hooks")
)
_REPLACEABLE_METHODS = (
    "forward",
    "propagate",
    "message",
    "aggregate",
    "update",
    "edge_update",
    "edge_updater",
)
INDICES = (torch.int32, torch.int64)

FAST: dict[type[nn.Module], type[FastLayer]] = {}
"""The classes of this package by torch_geometric's classes."""

last_fallback_reason: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
"""The reason why a layer's last call ran torch_geometric's own code; "" if it did not."""


class FastLayer(nn.Module):
    """Base class. A pickled layer is torch_geometric's; a copied one is of this class again."""

    plain_class: ClassVar[type[nn.Module]]
    kernels: ClassVar[str]
    """The kernel families that it runs on."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "plain_class" in vars(cls):
            FAST[cls.plain_class] = cls
            cls.__name__ = cls.__qualname__ = cls.plain_class.__name__

    def __reduce_ex__(self, protocol: Any) -> Any:
        made = super().__reduce_ex__(protocol)
        # As object.__reduce__ of the plain class: loading it needs nothing of cpuaccel.
        return copyreg._reconstructor, (self.plain_class, object, None), *made[2:]  # type: ignore[attr-defined]

    def __deepcopy__(self, memo: dict[int, Any]) -> FastLayer:
        made: Any = self.plain_class.__new__(self.plain_class)
        memo[id(self)] = made
        state = self.__getstate__()  # type: ignore[no-untyped-call]
        made.__setstate__(copy.deepcopy(state, memo))
        made.__class__ = type(self)
        result: FastLayer = made
        return result

    @classmethod
    def unsupported_reason(cls, layer: Any) -> str:
        """Return the reason why `layer`, of the plain class, cannot have this class, or ""."""
        if not isinstance(layer.aggr, str) or layer.aggr not in REDUCTIONS:
            return f"aggregation {layer.aggr}"
        if type(layer.aggr_module) not in _AGGREGATIONS:
            return f"aggregation {layer.aggr_module}"
        return ""

    def _uses_fused_ops(self, reason: str) -> bool:
        """Record the reason for a fallback. Return whether there is none: the call is fused."""
        if torch.compiler.is_compiling():
            return not reason
        last_fallback_reason[self] = reason
        if reason and (native := _native.native()) is not None:
            native.count_fallback(f"gnn.{type(self).__name__}", reason)
        return not reason

    def _fallback_reason(self, edge_index: object, *tensors: Tensor | None) -> str:
        """Return the reason why a call runs torch_geometric's own code, or ""."""
        me: Any = self
        if reason := _edges.unsupported_reason(*tensors):
            return reason
        if torch.is_autocast_enabled("cpu"):
            return "autocast"
        if (
            not isinstance(edge_index, Tensor)
            or (type(edge_index) is not Tensor and not torch.compiler.is_compiling())
            or edge_index.layout != torch.strided
            or edge_index.dtype not in INDICES
            or edge_index.dim() != 2
            or edge_index.shape[0] != 2
        ):
            return "edge_index is not a plain [2, E] tensor"
        if not self._in_normal_mode():
            return "explanations or decomposed layers are on"
        if any(getattr(me, name) for name in _HOOKS) or me.aggr_module._forward_hooks:
            return "hooks inside propagation"
        if me.flow != "source_to_target":
            return "flow from target to source"
        if get_tracing_state() is not None:
            return "torch.jit traces it"
        return ""

    def _in_normal_mode(self) -> bool:
        me: Any = self
        return not me.explain and me.decomposed_layers == 1

    def _reduction(self) -> str:
        me: Any = self
        return _AGGREGATIONS[type(me.aggr_module)]


def is_matrix(value: object) -> bool:
    """Return whether `value` is a tensor of two dimensions."""
    return isinstance(value, Tensor) and value.dim() == 2


def pair_of(x: Any) -> Any:
    """Return the features of source and destination nodes, which may be the same tensor."""
    return x if isinstance(x, tuple | list) else (x, x)


def change(layer: nn.Module, cls: type[nn.Module]) -> None:
    """Make `layer` an instance of `cls`, which is its plain class or the fast one."""
    layer.__class__ = cls
    # Explanations and decompositions leave a `propagate` of the former class.
    if "propagate" in vars(layer):
        me: Any = layer
        del me.propagate
        if me.explain or me.decomposed_layers != 1:
            me.propagate = me._orig_propagate


def replaced_method(layer: nn.Module) -> str:
    """Return the name of a method of `layer` that was replaced, or ""."""
    mine = ("_orig_propagate", "_jinja_propagate")
    for name in _REPLACEABLE_METHODS:
        value: Any = vars(layer).get(name)
        known = [getattr(type(layer), each, None) for each in mine if name == "propagate"]
        if value is not None and getattr(value, "__func__", value) not in known:
            return name
    return ""
