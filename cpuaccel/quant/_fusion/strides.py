"""Decides where the strides of a tensor, which fusing may change, could change results."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import Node

from cpuaccel.quant import fused
from cpuaccel.quant._fusion.elementwise import op_name
from cpuaccel.quant._fusion.layers import has_own_quantizer, keeps_quantizer, layer_of
from cpuaccel.quant._fusion.model import Model

_BLIND_FUNCTIONS = frozenset([torch.flatten, torch.mean, torch.reshape, torch.softmax, F.softmax])
_BLIND_METHODS = frozenset(["flatten", "mean", "reshape", "size", "dim", "numel", "contiguous"])
_STRICT_METHODS = frozenset(["view", "unflatten"])


def strides_matter(model: Model, node: Node) -> bool:
    """Return whether a user of `node`, or of what follows it, may depend on its strides.

    Such users are `view`, unknown ops, and the caller of the model.
    """
    waiting, seen = [node], {node}
    while waiting:
        for user in waiting.pop().users:
            if user in seen or _blind(model, user):
                continue
            seen.add(user)
            if not _follows(model, user):
                return True
            waiting.append(user)
    return False


def _blind(model: Model, node: Node) -> bool:
    """Return whether the result of `node` does not depend on the strides of its operands."""
    module = model.called(node)
    if layer_of(model, node) is not None or isinstance(module, fused.FusedTable):
        return True
    if node.op == "call_method":
        return node.target in _BLIND_METHODS
    return node.target in _BLIND_FUNCTIONS or type(module) is nn.Flatten


def _follows(model: Model, node: Node) -> bool:
    """Return whether strides of the operands of `node` change nothing but strides of its result."""
    if node.op == "call_method" and node.target in _STRICT_METHODS:
        return False
    return (
        keeps_quantizer(model, node)
        or has_own_quantizer(model.called(node))
        or model.is_elementwise(node)
        or op_name(node.target).startswith("quantized::")
    )
