"""Fake kernel of cpuaccel::neighbor_sample (csrc/ops/gnn/neighbor_sample.cpp)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cpuaccel import _native

_native.load()  # registers the op

_torch: Any = torch  # Any: torch's annotations lack names that are used here
_Sampled = tuple[
    list[Tensor], list[Tensor], list[Tensor], list[Tensor], list[Tensor], Tensor, Tensor
]


@_torch.library.register_fake("cpuaccel::neighbor_sample")  # type: ignore[untyped-decorator]
def _neighbor_sample(
    colptr: list[Tensor],
    row: list[Tensor],
    src_type: list[int],
    dst_type: list[int],
    num_nodes: list[int],
    seed_type: list[int],
    seeds: list[Tensor],
    fan_out: list[int],
    hops: int,
    seed: int,
    replace: bool = False,
    disjoint: bool = False,
    induced: bool = False,
) -> _Sampled:
    like = (seeds or row)[0]

    def unknown() -> Tensor:
        size = _torch.library.get_ctx().new_dynamic_size()
        return like.new_empty([size], dtype=torch.int64)

    def numbers(*sizes: int) -> Tensor:
        return like.new_empty(sizes, dtype=torch.int64)

    node = [unknown() for _ in num_nodes]
    batch = [numbers(*each.shape) if disjoint else numbers(0) for each in node]
    src = [unknown() for _ in colptr]
    return (
        node,
        batch,
        src,
        [numbers(*each.shape) for each in src],
        [numbers(*each.shape) for each in src],
        numbers(len(num_nodes), hops + 1),
        numbers(len(colptr), 0 if induced else hops),
    )
