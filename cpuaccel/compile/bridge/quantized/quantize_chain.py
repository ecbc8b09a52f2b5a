"""Finds the elementwise functions before a quantize, and the node that they are applied to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from cpuaccel._compat import disable_current_modes
from cpuaccel.compile.bridge._arguments import arguments_of, only_user
from cpuaccel.compile.bridge.quantized.tensors import CODES, Quantizer, quantizer_of, source_of
from cpuaccel.compile.bridge.translation import Translation

_aten: Any = torch.ops.aten

_RELU = _aten.relu.default
_CLAMPS = frozenset(
    {
        _aten.clamp.default,
        _aten.clamp_min.default,
        _aten.clamp_max.default,
        _aten.hardtanh.default,
        _RELU,
    }
)
_FUNCTIONS = _CLAMPS | {
    _aten.abs.default,
    _aten.celu.default,
    _aten.elu.default,
    _aten.exp.default,
    _aten.gelu.default,
    _aten.hardsigmoid.default,
    _aten.hardswish.default,
    _aten.leaky_relu.default,
    _aten.mish.default,
    _aten.neg.default,
    _aten.round.default,
    _aten.sigmoid.default,
    _aten.silu.default,
    _aten.softplus.default,
    _aten.tanh.default,
    # With a number.
    _aten.add.Tensor,
    _aten.div.Tensor,
    _aten.mul.Tensor,
    _aten.pow.Tensor_Scalar,
    _aten.sub.Tensor,
}


_COPY = _aten.clone.default
"""A dropout that drops nothing is traced as this op."""


@dataclass(frozen=True)
class QuantizeChain:
    """A quantize, the functions and copies before it, and the node that they are applied to.

    The function nearest to the quantize is the last one.
    """

    quantize: Node
    chain: Sequence[Node]
    anchor: Node

    @property
    def functions(self) -> list[Node]:
        """Return the nodes that change values."""
        return [node for node in self.chain if node.target is not _COPY]

    @property
    def quantizer(self) -> Quantizer:
        """Return the quantizer of the result."""
        return quantizer_of(self.quantize)

    @property
    def nodes(self) -> list[Node]:
        """Return all nodes that are applied to the anchor."""
        return [*self.chain, self.quantize]

    def is_relu(self) -> bool:
        """Say whether the only function is a ReLU."""
        return [node.target for node in self.functions] == [_RELU]

    def only_clamps(self) -> bool:
        """Say whether all functions are clamps.

        Rounding is monotonic, so that values can be clamped after it.
        """
        return all(node.target in _CLAMPS for node in self.functions)

    def table(self, before: Quantizer) -> list[int]:
        """Return the result's integer for each integer of `before`."""
        return [int(code) for code in self.quantizer.codes(self._applied(before.real()))]

    def clamp_table(self) -> list[int]:
        """Return the table that applies the clamps to the result's own integers."""
        q = self.quantizer
        limits = torch.tensor([-float("inf"), float("inf")])
        low, high = (int(code) for code in q.codes(self._applied(limits)))
        return [min(max(code, low), high) for code in range(CODES)]

    def _applied(self, values: Tensor) -> Tensor:
        with disable_current_modes():
            for node in self.functions:
                target: Any = node.target
                values = target(values, *node.args[1:], **node.kwargs)
        return values


Matches = dict[Callable[[Translation, QuantizeChain], bool], tuple[str, ...]]
"""Functions that translate the nodes of a chain, or return False, with the kinds that they add."""


def chain_before(quantize: Node) -> QuantizeChain:
    """Walk from a quantize to the first node that is not an elementwise function of one tensor."""
    chain: list[Node] = []
    node = source_of(quantize)
    while (is_function(node) or node.target is _COPY) and only_user(node) is not None:
        chain.insert(0, node)
        node = source_of(node)
    return QuantizeChain(quantize, chain, node)


def is_function(node: Any) -> bool:
    """Say whether a node is an elementwise function of one tensor."""
    if not isinstance(node, Node) or node.target not in _FUNCTIONS:
        return False
    rest = list(arguments_of(node).values())[1:]
    return isinstance(node.args[0], Node) and not any(isinstance(each, Node) for each in rest)
