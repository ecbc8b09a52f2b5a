"""Maps each element of a view (reshape, permute, select) to its position in the base tensor.

View ops are views, permutations, copies and selects. The tensor before the first one is the root.
Each dimension of the result is a product of factors, which are parts of the root's dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Node

from cpuaccel.compile.bridge._arguments import arguments_of, dimension, only_user
from cpuaccel.compile.bridge.shapes import PERMUTES, RESHAPES, VIEWS, permutation

_aten: Any = torch.ops.aten

VIEW_OPS = frozenset({*RESHAPES, *PERMUTES, _aten.select.int, _aten.t.default})


@dataclass(frozen=True, order=True)
class Factor:
    """A part of a root's dimension: position p of the dimension is index p // step % size."""

    dim: int
    negative_step: int  # negative, so that factors sort in memory order
    size: int

    def cut(self, size: int) -> tuple[Factor, Factor]:
        """Split the factor: an outer factor of this `size`, and an inner factor of the rest."""
        rest = self.size // size
        return (
            replace(self, negative_step=self.negative_step * rest, size=size),
            replace(self, size=rest),
        )


Dimensions = list[list[Factor]]


@dataclass(frozen=True)
class ViewChain:
    """A chain of view ops: `root`, the factors of each dimension, and the selected indices."""

    root: Node
    dims: Dimensions
    selected: tuple[tuple[Factor, int], ...]
    count: int
    """Number of view ops."""

    def factors(self) -> list[Factor]:
        """Return the factors of all dimensions, in the order of the elements."""
        return flattened(self.dims)

    def root_factors(self) -> list[Factor]:
        """Return the factors of the root in its order, including those with a selected index."""
        return sorted([*self.factors(), *dict(self.selected)])

    def in_order(self) -> bool:
        """Say whether the elements are in the order that they have in the root."""
        return self.factors() == sorted(self.factors())


def view_chain_of(node: Node, through: Container[Node] = ()) -> ViewChain | None:
    """Return the chain of view ops from the root to `node`.

    The root is the first node above `node` that is neither a view op nor one of `through`. Nodes of
    `through` are elementwise. Returns None if the chain is unknown: for dynamic sizes, or for
    parts that are not factors.
    """
    sizes = _sizes(node)
    if sizes is None:
        return None
    if node in through:
        source: Any = node.args[0]
        return view_chain_of(source, through)
    if node.target not in VIEW_OPS or _is_rows(node):
        return ViewChain(node, identity_dims(sizes), (), 0)
    given = arguments_of(node)
    before = view_chain_of(given["self"], through)
    if before is None:
        return None
    dims, selected = before.dims, before.selected
    if node.target in RESHAPES:
        cut = _regrouped(flattened(dims), sizes)
        if cut is None:
            return None
        dims = cut
    elif node.target is _aten.select.int:
        axis, index = dimension(given["dim"], len(dims)), given["index"]
        if not isinstance(index, int) or len(dims[axis]) > 1:
            return None
        for factor in dims[axis]:
            selected = (*selected, (factor, index % factor.size))
        dims = dims[:axis] + dims[axis + 1 :]
    else:
        dims = [dims[dim] for dim in permutation(node, len(dims)) or ()]
    return ViewChain(before.root, dims, selected, before.count + 1)


def identity_dims(sizes: Sequence[int]) -> Dimensions:
    """Return the factors of the root itself."""
    return [[Factor(dim, -1, size)] if size > 1 else [] for dim, size in enumerate(sizes)]


def flattened(dims: Dimensions) -> list[Factor]:
    """Return the factors of all these dimensions in one list."""
    return [factor for dim in dims for factor in dim]


def _is_rows(node: Node) -> bool:
    """Say whether it is a view that unflattens the rows of a product: both are one linear layer."""
    source: Any = node.args[0]
    return (
        node.target in VIEWS
        and source.target in (_aten.addmm.default, _aten.mm.default)
        and only_user(source) is node
    )


def _sizes(node: Node) -> tuple[int, ...] | None:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return None
    sizes = tuple(value.shape)
    # Empty tensors have no factors.
    return sizes if all(isinstance(size, int) and size > 0 for size in sizes) else None


def _regrouped(factors: list[Factor], sizes: Sequence[int]) -> Dimensions | None:
    left = list(factors)
    dims: Dimensions = []
    for size in sizes:
        dim: list[Factor] = []
        while size > 1:
            factor = left.pop(0)
            if factor.size > size:
                if factor.size % size:
                    return None
                factor, rest = factor.cut(size)
                left.insert(0, rest)
            if size % factor.size:
                return None
            dim.append(factor)
            size //= factor.size
        dims.append(dim)
    return dims


def sizes_of(dims: Dimensions) -> list[int]:
    """Return the sizes of these dimensions."""
    return [math.prod(factor.size for factor in dim) for dim in dims]
