"""Lowers embeddings with integer rows. They are weight-only, so the result is float."""

from __future__ import annotations

from typing import Any

import torch
import torch.ao.nn.quantized as nnq
import torch.nn.functional as F
from torch import nn
from torch.fx import Node

from cpuaccel.quant._lowering.lowering import Lowering

MODULES: frozenset[type[nn.Module]] = frozenset([nnq.Embedding])


def lower_module(low: Lowering, node: Node, module: Any) -> bool:
    """Look up integers and dequantize only those: (q - zero_point) * scale, both per row."""
    weight = module.weight()
    if weight.dtype != torch.quint8:  # quint4x2: two values in a byte
        return False
    name = str(node.target)
    ids = low.as_is(node.args[0])
    table = {
        "weight": weight.int_repr(),
        "scales": weight.q_per_channel_scales().float()[:, None],
        "zero_points": weight.q_per_channel_zero_points().float()[:, None],
    }
    rows = {
        key: low.emit.call(F.embedding, ids, low.emit.constant(f"{name}_{key}", value))
        for key, value in table.items()
    }
    shifted = low.emit.call(torch.sub, rows["weight"], rows["zero_points"])
    low.put(node, low.emit.call(torch.mul, shifted, rows["scales"]))
    return True
