"""What is done with each int8 graph that `cpuaccel.quant.load_legacy` made.

`cpuaccel.quant` imports nothing from `cpuaccel.compile`, which gives such graphs plans.
"""

from __future__ import annotations

from collections.abc import Callable

from torch.fx import GraphModule

_functions: list[Callable[[GraphModule], None]] = []


def on_loaded(function: Callable[[GraphModule], None]) -> None:
    """Call `function` with each graph that is loaded from now on."""
    if function not in _functions:
        _functions.append(function)


def loaded(model: GraphModule) -> GraphModule:
    """Return a graph that was loaded, after all functions have seen it."""
    for function in _functions:
        function(model)
    return model
