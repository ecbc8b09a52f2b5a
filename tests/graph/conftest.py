"""Every graph is compiled anew, and what is taken of it is the same on every machine.

What Inductor finds on disk tells nothing of partitions, and the measured table has other rows for
other CPUs: tests that assert partitions have a table of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from torch._inductor import config

from cpuaccel.graph import choice_table

_WINS = (
    ("convolution", choice_table.ANY),
    ("product", choice_table.ANY),
    *(("attention", place) for place in ("beside", "between")),
    *(("pool", place) for place in ("beside", "between")),
    *(("elementwise", place) for place in ("beside", "between")),
    ("layer_norm", "between"),
)


@pytest.fixture(autouse=True)
def _no_caches_on_disk(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.get_closest_marker("caches"):
        yield
        return
    with config.patch(force_disable_caches=True):
        yield


@pytest.fixture(autouse=True)
def _a_table_of_tests(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.node.get_closest_marker("measured_table"):
        rows = tuple(
            choice_table.Row("", "", family, place, choice_table.ANY, 0, 2.0, "tests")
            for family, place in _WINS
        )
        monkeypatch.setattr(choice_table, "_rows", lambda: rows)
