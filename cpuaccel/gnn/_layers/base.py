"""FastLayer: base class of the layers here, and how a layer becomes one of them."""

from __future__ import annotations

import copy
import copyreg
import weakref
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch_geometric.nn import aggr

from cpuaccel import _native
from cpuaccel.gnn import _graph

REDUCTIONS: dict[str, str] = {
    "add": "sum",
    "sum": "sum",
    "mean": "mean",
    "max": "amax",
    "min": "amin",
}
"""torch_geometric's names of aggregations, and the reductions that they are here."""

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
_METHODS = (
    "forward",
    "propagate",
    "message",
    "aggregate",
    "update",
    "edge_update",
    "edge_updater",
)
INDICES = (torch.int32, torch.int64)

last_refusal: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
"""Why the last call of a layer ran torch_geometric's own code; "" if it did not."""


class FastLayer(nn.Module):
    """Base class. A pickled layer is torch_geometric's; a copied one is of this class again."""

    plain_class: ClassVar[type[nn.Module]]
    kernels: ClassVar[str]
    """Kernel families that it runs on."""

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
    def why_not(cls, layer: Any) -> str:
        """Return the reason why `layer`, of the plain class, cannot become one of these, or ""."""
        if not isinstance(layer.aggr, str) or layer.aggr not in REDUCTIONS:
            return f"aggregation {layer.aggr}"
        if type(layer.aggr_module) not in _AGGREGATIONS:
            return f"aggregation {layer.aggr_module}"
        return ""

    def _taken(self, why: str) -> bool:
        if torch.compiler.is_compiling():
            return not why
        last_refusal[self] = why
        if why and (native := _native.native()) is not None:
            native.count_fallback(f"gnn.{type(self).__name__}", why)
        return not why

    def _refusal(self, edge_index: object, *tensors: Tensor | None) -> str:
        """Return the reason why a call runs torch_geometric's own code, or ""."""
        me: Any = self
        if why := _graph.why_not(*tensors):
            return why
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
            return "not a plain edge_index"
        if not self._ordinary():
            return "explain or decomposed layers"
        if any(getattr(me, name) for name in _HOOKS) or me.aggr_module._forward_hooks:
            return "hooks"
        if me.flow != "source_to_target":
            return "flow from target to source"
        if torch._C._get_tracing_state() is not None:
            return "tracing"
        return ""

    def _ordinary(self) -> bool:
        me: Any = self
        return not me.explain and me.decomposed_layers == 1

    def _reduction(self) -> str:
        me: Any = self
        return _AGGREGATIONS[type(me.aggr_module)]


def change(layer: nn.Module, cls: type[nn.Module]) -> None:
    """Make `layer` an instance of `cls`, which is its plain class or the fast one."""
    layer.__class__ = cls
    # Explanations and decompositions leave a `propagate` of the former class.
    if "propagate" in vars(layer):
        me: Any = layer
        del me.propagate
        if me.explain or me.decomposed_layers != 1:
            me.propagate = me._orig_propagate


def replaced(layer: nn.Module) -> str:
    """Return the name of a method of `layer` that was replaced, or ""."""
    mine = ("_orig_propagate", "_jinja_propagate")
    for name in _METHODS:
        value: Any = vars(layer).get(name)
        known = [getattr(type(layer), each, None) for each in mine if name == "propagate"]
        if value is not None and getattr(value, "__func__", value) not in known:
            return name
    return ""
