"""What the tests of graphs share."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="session")
def pyg() -> Any:
    """torch_geometric, an optional dependency of the tests."""
    return pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
