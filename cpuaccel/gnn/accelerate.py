"""`accelerate` and `unaccelerate`: switch torch_geometric's layers to fused ops and back."""

from __future__ import annotations

import sys
import warnings
import weakref
from typing import Any, TypeVar

from torch import nn

from cpuaccel import _engine_state

Model = TypeVar("Model", bound=nn.Module)

_not_accelerated: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()


def accelerate(model: Model) -> Model:
    """Run message passing of torch_geometric's layers in `model` on fused ops, and return `model`.

    Supported layers are GCNConv, SAGEConv, GINConv, GraphConv (sum, mean, max and min), GATConv,
    GATv2Conv, PNAConv, RGCNConv and EdgeConv (if its network begins with a linear layer). They are
    changed in place, with the same parameters, `state_dict` and hooks, and the same results within
    the rounding of sums. No edge message is in memory, unless EdgeConv's network has more layers
    than a linear one and ReLU, or PNAConv has edge features or `pre_layers` above 1; then only the
    messages after the first layer are. What is made of an `edge_index` (its order, also by
    relation, loops, the weights of GCNConv) is cached while it does not change. A copy of the model
    is accelerated too; a pickled model is torch_geometric's.

    A call runs torch_geometric's own code, and is counted in `cpuaccel.stats()`, if it needs what
    the fused ops do not support: hooks within propagation (and on linear layers that are split),
    explanations, edge features in GATConv and GATv2Conv, returned attention weights, indices as
    features of RGCNConv, sparse matrices, an EdgeIndex, dtypes other than float32 and float64,
    autocast, torch.func and forward-mode derivatives. PNAConv, RGCNConv and EdgeConv also do so in
    compiled code. `cpuaccel.explain(model)` lists the layers that were changed and the reasons for
    the others. Layers of derived classes stay as they are.

    Args:
        model: any module; torch_geometric must be installed.

    Raises:
        TypeError: `model` is not a module.
        ImportError: torch_geometric is not installed.
    """
    _check("accelerate", model)
    if not _engine_state.is_enabled():
        warnings.warn(
            "cpuaccel.gnn.accelerate: nothing is changed, cpuaccel is off: "
            f"{_engine_state.why_off()}",
            RuntimeWarning,
            stacklevel=2,
        )
        return model
    from torch_geometric.nn import MessagePassing

    from cpuaccel.gnn._layers import FAST, FastLayer, change

    for module in model.modules():
        if not isinstance(module, MessagePassing) or isinstance(module, FastLayer):
            continue
        reason = _unsupported_reason(module)
        if reason:
            _not_accelerated[module] = reason
        else:
            _not_accelerated.pop(module, None)
            change(module, FAST[type(module)])
    return model


def unaccelerate(model: Model) -> Model:
    """Restore torch_geometric's classes of the layers that `accelerate` changed; return `model`.

    Raises:
        TypeError: `model` is not a module.
    """
    _check("unaccelerate", model)
    layers: Any = sys.modules.get("cpuaccel.gnn._layers")
    for module in model.modules() if layers is not None else ():
        if isinstance(module, layers.FastLayer):
            layers.change(module, module.plain_class)
        _not_accelerated.pop(module, None)
    return model


def not_accelerated_reason(module: nn.Module) -> str:
    """Return why `accelerate` did not change `module`; "" if it changed it or was not called."""
    return _not_accelerated.get(module, "")


def _unsupported_reason(module: Any) -> str:
    from cpuaccel.gnn._layers import FAST as fast
    from cpuaccel.gnn._layers import replaced_method

    cls = fast.get(type(module))
    if cls is None:
        base = next((c for c in type(module).__mro__ if c in fast), None)
        if base is not None:
            return f"a subclass of {base.__name__}"
        return "cpuaccel has no fused form of this layer"
    if name := replaced_method(module):
        return f"its method {name} was replaced"
    reason: str = cls.unsupported_reason(module)
    return reason


def _check(function: str, model: object) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"cpuaccel.gnn.{function}: model: expected a torch.nn.Module, got "
            f"{type(model).__name__}"
        )
