"""Decides whether (A - B) y_m + B x_n may replace A y_m + B (x_n - y_m), and in which precision.

Both equal W [y_m, x_n - y_m], the first layer of EdgeConv, but the first form loses the digits that
x_n and y_m have in common. With u the rounding unit, k a small multiple of the number of terms, and
norms that add up the outputs, the errors are:

    error of the second form, torch's:  k u (|A| |y_m| + |B| |x_n - y_m|)
    error of the first form:            k u (|A| |y_m| + |B| |x_n - y_m| + 2 |B| |y_m|)

For each m, `edge_contrast` bounds |B| |y_m| by a multiple r of the mean of |B| |x_n - y_m| over the
edges of m (of |A| |y_m| if all of these are 0). For each feature, on average over the nodes, it
also bounds |y_m| by r times |x_n - y_m|, which is what the gradient of B adds up. So:

- r up to 16: the first form as it is. A node's error is at most 33 times torch's bound; on features
  without an offset r is about 1.
- float32 and r up to 2^26: the first form in float64, then rounded, forward and backward: at most
  2^-53 (1 + 2 r) <= 2^-25.9, less than torch's 2^-24.
- else, or if a number is not finite: torch_geometric's own forward.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_MOST = 16.0
_MOST_IN_FLOAT64 = 2.0**26


def working_dtype(
    x: Tensor, y: Tensor, edges: Tensor, weight_a: Tensor, weight_b: Tensor
) -> torch.dtype | None:
    """Return the dtype to compute (A - B) y + B x in, or None if no dtype is good enough.

    `edges` are sorted, from x to y; `weight_a` is A and `weight_b` is B.
    """
    sums_b, sums_a = (part.detach().abs().sum(0) for part in (weight_b, weight_a))
    contrast = torch.ops.cpuaccel.edge_contrast
    nodes, features = contrast(x.detach(), y.detach(), edges, sums_b, sums_a, _MOST)
    if nodes <= _MOST and features <= _MOST:
        return x.dtype
    if x.dtype == torch.float32 and nodes <= _MOST_IN_FLOAT64 and not math.isnan(features):
        return torch.float64
    return None
