"""Gives the models that `cpuaccel.quant.load_legacy` returns plans for calls in eager mode."""

from __future__ import annotations

from torch.fx import GraphModule

from cpuaccel import _loaded_models
from cpuaccel.compile.frontend.eager_plans import Origin, give_plans


def install() -> None:
    """Give plans to each graph that is loaded from now on."""
    _loaded_models.on_loaded(_give_plans)


def _give_plans(model: GraphModule) -> None:
    give_plans(model, _LEGACY)


def _has_no_graphs_inside(model: GraphModule) -> bool:
    """Return whether no module inside has plans of its own.

    LSTM and GRU call linear layers that have. A plan of such a model would be one for each number
    of steps, with the layers of all steps one after the other.
    """
    return not any(isinstance(each, GraphModule) for each in model.modules() if each is not model)


_LEGACY = Origin("load_legacy", "legacy_plans", _has_no_graphs_inside)
