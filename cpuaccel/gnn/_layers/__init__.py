"""torch_geometric's layers on fused ops, without a tensor of edge messages.

`accelerate` changes a layer's class to one of these, which derive from its own class. Its
parameters and attributes stay as they are; only its propagation differs. A call that needs what the
fused ops do not support (hooks, explanations, edge features, attention weights, other kinds of
graphs or dtypes) runs torch_geometric's own code and is counted with its reason.
"""

from __future__ import annotations

import importlib
import pkgutil

from cpuaccel.gnn._layers.base import (
    FAST,
    FastLayer,
    change,
    last_fallback_reason,
    replaced_method,
)

__all__ = ["FAST", "FastLayer", "change", "last_fallback_reason", "replaced_method"]

# Each class with a `plain_class` registers itself in FAST.
for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
