"""The activations that cpuaccel's kernels apply to their results: torch's ops, and names.

csrc/base/activations.inc has the same names.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from cpuaccel.compile.bridge._arguments import arguments_of, only_user
from cpuaccel.compile.bridge.translation import Translation

_aten: Any = torch.ops.aten
_NAMES: dict[Any, str] = {
    _aten.relu.default: "relu",
    _aten.hardswish.default: "hardswish",
    _aten.silu.default: "silu",
    _aten.gelu.default: "gelu",
}


def activation_of(node: Node) -> str | None:
    """Return the name of the activation that `node` computes, or None if it is no activation."""
    name = _NAMES.get(node.target)
    if name == "gelu" and arguments_of(node)["approximate"] == "tanh":
        return "gelu_tanh"
    return name


def activation_behind(translation: Translation, node: Node) -> tuple[str, list[Node]]:
    """Return the activation of the only reader of `node`, and the nodes of both.

    Without one, the name is empty and the list has only `node`.
    """
    follows = only_user(node)
    if follows is None or follows in translation.unit_of:
        return "", [node]
    name = activation_of(follows)
    return ("", [node]) if name is None else (name, [node, follows])
