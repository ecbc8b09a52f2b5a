"""Every graph is compiled anew, with the same partitions on every machine.

Inductor's disk cache would report no partitions, and the measured table has other rows for other
CPUs, so tests that assert partitions use their own table. Tuning is off unless a test asks for it.
`bf16` skips a test if there are no bf16 layers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from _other_cpus import as_cpu
from _settings import setting
from torch._inductor import config as inductor

import cpuaccel
from compile import _bf16
from compile._structured import image, net
from cpuaccel import _native, _tuning_cache, config
from cpuaccel.compile.frontend import optimize, optimized_module
from cpuaccel.compile.partition import cost_table

_WINS = (
    ("convolution", cost_table.ANY),
    ("product", cost_table.ANY),
    *(("attention", place) for place in ("beside", "between")),
    *(("pool", place) for place in ("beside", "between")),
    *(("elementwise", place) for place in ("beside", "between")),
    ("layer_norm", "between"),
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In the processes that _bf16.py starts, run only the bf16 tests."""
    if _bf16.ALONE not in os.environ:
        return
    others = [each for each in items if not _is_of_bf16(each)]
    config.hook.pytest_deselected(items=others)
    items[:] = [each for each in items if _is_of_bf16(each)]


def _is_of_bf16(test: pytest.Item) -> bool:
    return "bf16" in getattr(test, "fixturenames", ()) or _dtype(test) == torch.bfloat16


def _dtype(test: pytest.Item) -> torch.dtype | None:
    parameters = getattr(test, "callspec", None)
    return None if parameters is None else parameters.params.get("dtype")


@pytest.fixture(autouse=True)
def _any_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove time limits of captures, because the machine may be busy."""
    monkeypatch.setattr(optimized_module, "LONGEST_IN_A_CALL", 600.0)
    monkeypatch.setitem(optimize.optimize.__kwdefaults__, "sizes_budget", 20.0)


@pytest.fixture
def bf16() -> None:
    """Skip if oneDNN has no bf16 layers."""
    if not _bf16.cpu_has_it():
        pytest.skip(_bf16.NO_ARITHMETIC)
    if not _bf16.onednn_has_it():
        pytest.skip("an ISA cap of an earlier test: test_in_a_process_of_its_own runs this")


@pytest.fixture
def bf16_if_asked(request: pytest.FixtureRequest) -> None:
    """Skip a bf16 `dtype` if the ISA was capped; test_in_a_process_of_its_own then runs it."""
    if _dtype(request.node) == torch.bfloat16:
        request.getfixturevalue("bf16")


@pytest.fixture(autouse=True)
def _no_caches_on_disk(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.get_closest_marker("caches"):
        yield
        return
    with inductor.patch(force_disable_caches=True):
        yield


@pytest.fixture(autouse=True)
def _deterministic() -> Iterator[None]:
    with setting("deterministic", True):
        yield


@pytest.fixture
def tuning_cache_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, _deterministic: None
) -> Iterator[Path]:
    """Allow tuning; the tuning cache is empty, and this process has not read its file."""
    native = _native.load()
    known, named = native.tuning_results(), config.get("ranks")
    path = tmp_path / "new folder" / "ranks.csv"
    config.set("ranks", str(path))
    config.set("deterministic", False)
    monkeypatch.setattr(_tuning_cache, "_written", None)
    native.set_tuning_results({})
    with as_cpu("Unknown CPU"):  # no row of a vendor takes small convolutions from oneDNN
        yield path
    native.set_tuning_results(known)
    config.set("ranks", named)


@pytest.fixture(autouse=True)
def _a_table_of_tests(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.node.get_closest_marker("measured_table"):
        rows = tuple(
            cost_table.Row("", "", family, place, cost_table.ANY, 0, 0, 2.0, "tests")
            for family, place in _WINS
        )
        monkeypatch.setattr(cost_table, "_rows", lambda: rows)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A saved file, alone in its folder."""
    path = tmp_path / "net.pt2"
    cpuaccel.save(cpuaccel.optimize(net(), (image(),), time_budget=0), path)
    return path
