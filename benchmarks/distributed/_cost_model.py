"""What a collective takes among p sockets: latency of a message, and bandwidth of a link.

Each socket sends to one other at a time, over a link that no other pair uses.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """A message of n bytes takes `latency` + n / `bandwidth`: seconds, and bytes a second."""

    latency: float
    bandwidth: float

    def ring_all_reduce(self, sockets: int, size: float) -> float:
        """2(p-1) messages of n/p bytes."""
        return 2 * (sockets - 1) * self._message(size / sockets)

    def halving_all_reduce(self, sockets: int, size: float) -> float:
        """Recursive halving, then doubling: 2 log2(p) messages, 2n(p-1)/p bytes together."""
        messages = 2 * math.ceil(math.log2(sockets))
        return messages * self.latency + 2 * (sockets - 1) / sockets * size / self.bandwidth

    def all_gather(self, sockets: int, size: float) -> float:
        """A ring of p-1 messages of n/p bytes; a reduce_scatter takes the same."""
        return (sockets - 1) * self._message(size / sockets)

    def _message(self, size: float) -> float:
        return self.latency + size / self.bandwidth


FORMULAS = (
    "message: a + n / b (a: latency, b: bandwidth, n: bytes, p: sockets)",
    "all_reduce, ring: 2 (p - 1) (a + n / (p b))",
    "all_reduce, halving and doubling: 2 log2(p) a + 2 n (p - 1) / (p b)",
    "all_gather and reduce_scatter of n bytes, ring: (p - 1) (a + n / (p b))",
    "a layer among p sockets: a socket's share of it, and two all_reduce of rows x width floats",
)

ALL_REDUCE: dict[str, Callable[[Link, int, float], float]] = {
    "ring": Link.ring_all_reduce,
    "halving": Link.halving_all_reduce,
}


def fitted(sizes: Sequence[float], seconds: Sequence[float]) -> Link:
    """The link for which all_reduce between two sockets, 2a + n / b, is nearest to `seconds`.

    Nearest in the sum of squares of relative errors.

    Raises:
        ValueError: the times do not grow with the sizes.
    """
    # Rows (1/t, n/t) times (2a, 1/b) are near 1.
    rows = [(1 / t, n / t) for n, t in zip(sizes, seconds, strict=True)]
    aa, ab, bb = (sum(r[i] * r[j] for r in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    a, b = (sum(r[i] for r in rows) for i in (0, 1))
    determinant = aa * bb - ab * ab
    slope = (aa * b - ab * a) / determinant if determinant > 0 else 0.0
    if slope <= 0:
        raise ValueError(f"expected times that grow with the sizes, got {list(seconds)}")
    return Link(max(0.0, (a * bb - b * ab) / determinant) / 2, 1 / slope)
