"""Several statistics of the messages of a node's edges in one pass: mean, variance, extremes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Stats(NamedTuple):
    """Of the messages x[n] + shift[m] of the edges from n to m, [M, K] each; 0 without edges."""

    mean: Tensor
    var: Tensor
    """Mean of squares minus square of the mean."""
    smallest: Tensor
    largest: Tensor


def stats(x: Tensor, edges: Tensor, shift: Tensor | None, rows: int) -> Stats:
    """Return them for sorted edges (`_edges`), x of shape [N, K] and shift of [M, K] or None."""
    return Stats(*torch.ops.cpuaccel.edge_stats(x, edges, shift, rows, "all")[:4])


def extreme(x: Tensor, edges: Tensor, shift: Tensor | None, rows: int, reduce: str) -> Tensor:
    """Return only the largest (`reduce` "amax") or smallest ("amin") of them."""
    _, _, smallest, largest, *_ = torch.ops.cpuaccel.edge_stats(x, edges, shift, rows, reduce)
    result: Tensor = largest if reduce == "amax" else smallest
    return result
