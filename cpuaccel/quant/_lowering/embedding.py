"""Lowers embeddings with integer rows. They are weight-only, so the result is float."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Node
from torch.fx.node import Argument

from cpuaccel.quant._lowering.integers import IntegerTensor, integers_of
from cpuaccel.quant._lowering.lowering import Lowering
from cpuaccel.quant._torch_ao import DescribedModule

MODULES = frozenset(["quantized.Embedding"])
"""By kind (`_torch_ao.kind_of`)."""
OPS = frozenset(["quantized::embedding_byte"])
"""The op takes the packed table and the indices."""


def lower_module(low: Lowering, node: Node, module: Any) -> bool:
    """Lower a call of a module of MODULES; return False if it has another form."""
    weight: Any = module.table if isinstance(module, DescribedModule) else module.weight()
    if not isinstance(weight, IntegerTensor):
        if str(weight.dtype) != "torch.quint8":  # quint4x2: two values in a byte
            return False
        weight = integers_of(weight, str(node.target))
    return _look_up(low, node, str(node.target), node.args[0], weight)


def lower_op(low: Lowering, node: Node) -> bool:
    """Lower an op of OPS; return False if it has another form."""
    packed = low.model.constant(node.args[0])  # type: ignore[arg-type]
    if len(node.args) != 2 or not isinstance(packed, IntegerTensor):
        return False
    return _look_up(low, node, node.name, node.args[1], packed)


def _look_up(low: Lowering, node: Node, name: str, indices: Argument, weight: Any) -> bool:
    """Look up integers and dequantize only those: (q - zero_point) * scale, both per row."""
    if not isinstance(weight.scale, Tensor) or weight.axis != 0:
        return False
    ids = low.as_is(indices)
    table = {
        "weight": weight.q,
        "scales": weight.scale.float()[:, None],
        "zero_points": weight.zero_point.float()[:, None],
    }
    rows = {
        key: low.emit.call(F.embedding, ids, low.emit.constant(f"{name}_{key}", value))
        for key, value in table.items()
    }
    shifted = low.emit.call(torch.sub, rows["weight"], rows["zero_points"])
    low.put(node, low.emit.call(torch.mul, shifted, rows["scales"]))
    return True
