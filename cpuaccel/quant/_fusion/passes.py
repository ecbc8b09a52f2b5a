"""Rewrites the graph of a convert_fx model: `fuse_model` is `cpuaccel.quant.fuse`."""

from __future__ import annotations

import copy

import torch
from torch.fx import GraphModule

from cpuaccel import _log
from cpuaccel.quant._fusion.binary import put_binary_ops
from cpuaccel.quant._fusion.model import Model, check_converted
from cpuaccel.quant._fusion.regions import Values
from cpuaccel.quant._fusion.shuffle import put_shuffles
from cpuaccel.quant._fusion.tables import put_tables
from cpuaccel.quant._fusion.unfused_layers import put_layers
from cpuaccel.quant._fusion.view_ops import move_quantized
from cpuaccel.quant._meta import NOTHING_QUANTIZED

_PASSES = (move_quantized, put_tables, put_shuffles, put_binary_ops, put_layers)
"""The order matters.

Moving values can leave a table to build, a sum goes behind a layer and its table, and layers that
are still torch's come last.
"""


def fuse_model(model: torch.nn.Module, inplace: bool) -> GraphModule:
    """See `cpuaccel.quant.fuse`."""
    graph_module = _checked(model)
    if not inplace:
        graph_module = copy.deepcopy(graph_module)
    view = Model(graph_module)
    if not Values(view).values:
        _log.logger.info("cpuaccel.quant.fuse: nothing in the model is quantized; unchanged")
        graph_module.meta[NOTHING_QUANTIZED] = True
        return graph_module
    before = len(view.graph.nodes)
    for rewrite in _PASSES:
        rewrite(view)
    view.graph.lint()
    graph_module.recompile()
    _log.logger.info("cpuaccel.quant.fuse: %d nodes became %d", before, len(view.graph.nodes))
    return graph_module


def _checked(model: torch.nn.Module) -> GraphModule:
    if not isinstance(model, GraphModule):
        raise TypeError(
            "cpuaccel.quant.fuse: model: expected a torch.fx.GraphModule, as convert_fx returns,"
            f" got {type(model).__name__}"
        )
    check_converted("cpuaccel.quant.fuse", model)
    return model
