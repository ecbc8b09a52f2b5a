"""The table of ways: each way in which an op can be called."""

from __future__ import annotations

from calls import _ways_derivatives, _ways_plain, _ways_processes, _ways_traced
from calls._way import Way

WAYS: tuple[Way, ...] = (
    *_ways_plain.WAYS,
    *_ways_derivatives.WAYS,
    *_ways_traced.WAYS,
    *_ways_processes.WAYS,
)

SAMPLED = {"export": 4, "fork": 60, "address_limit": 60} | {
    way.name: 2 for way in WAYS if way.name.startswith("compile")
}
"""Cells of a way that `make test` runs; cells of other ways take a few milliseconds each."""
SAMPLED_OTHERS = 8
