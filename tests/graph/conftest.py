"""Every graph is compiled anew: what Inductor finds on disk tells nothing of partitions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from torch._inductor import config


@pytest.fixture(autouse=True)
def _no_caches_on_disk(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.get_closest_marker("caches"):
        yield
        return
    with config.patch(force_disable_caches=True):
        yield
