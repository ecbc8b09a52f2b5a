"""Fixtures of the GNN tests."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest


@pytest.fixture(scope="session")
def pyg() -> Any:
    """torch_geometric, an optional dependency of the tests."""
    return pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")


@pytest.fixture(autouse=True)
def no_work_is_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets EdgeConv run fused on the small graphs of tests."""
    if importlib.util.find_spec("torch_geometric") and importlib.util.find_spec("cpuaccel.gnn"):
        edge_conv = importlib.import_module("cpuaccel.gnn._layers.edge_conv")
        for bound in ("LEAST_WORK", "LEAST_WORK_OF_MESSAGES"):
            monkeypatch.setattr(edge_conv, bound, 0)
