"""Paths, hypothesis profiles, and the state that every test starts from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_TESTS = Path(__file__).resolve().parent
_ROOT = _TESTS.parent


def _checkout_last() -> None:
    # The checkout's `cpuaccel` folder has no compiled module and must not hide the installed
    # package. `benchmarks` and the test helpers are found in the checkout only.
    here = {_ROOT, _TESTS}
    sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() not in here]
    sys.path += [str(_ROOT), str(_TESTS)]


_checkout_last()
pytest_plugins = ["_crashes"]
# On a busy machine, threads that spin while they wait take the CPU from the threads they wait for.
# torch's OpenMP reads this variable when it is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# First calls make their captures, in processes that tests start too. cpuaccel reads this once.
os.environ["CPUACCEL_CAPTURE_CACHE_MIB"] = "0"
# What runs must not depend on the tests before, or on how busy the machine is.
os.environ["CPUACCEL_LEARN"] = "0"

import _no_torchvision  # noqa: E402, F401
import _without_torch_ao  # noqa: E402

_without_torch_ao.install()

import _tiers  # noqa: E402
import torch  # noqa: E402
from _without_torch_ao import pytest_pycollect_makemodule  # noqa: E402, F401
from hypothesis import HealthCheck, settings  # noqa: E402

# No deadline: a shared machine is slow at times, and no test asserts a time.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", max_examples=40, derandomize=True, database=None, **_COMMON)
settings.register_profile("dev", max_examples=40, **_COMMON)
settings.register_profile("thorough", max_examples=400, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long tests run first, so that no process has to wait for one that started last."""
    if _tiers.is_small():
        items[:], others = _tiers.split(items)
        config.hook.pytest_deselected(items=others)
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="session", autouse=True)
def _no_tuning_cache_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Processes that tests start must not write to the user's tuning cache."""
    os.environ["CPUACCEL_RANKS"] = str(tmp_path_factory.mktemp("ranks") / "ranks.csv")


@pytest.fixture(scope="session", autouse=True)
def _short_explanations() -> Iterator[None]:
    """Plans that tests explain are timed only briefly, because no test asserts times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cpuaccel._explain.step_timing._SECONDS", 0.02)
        yield


@pytest.fixture(scope="session", autouse=True)
def _onednn_has_the_cpus_isa() -> None:
    """oneDNN keeps the ISA of its first use in a process, which may be a test that caps it."""
    from _settings import setting

    from cpuaccel import _native

    if _native.native() is not None:
        with torch.no_grad(), setting("matmul_provider", "onednn"):
            torch.mm(torch.ones(64, 64), torch.ones(64, 64))


@pytest.fixture(autouse=True)
def _torch_state() -> Iterator[None]:
    """Seed, thread count and quantized engine are the same at the start of every test."""
    threads = torch.get_num_threads()
    engine = torch.backends.quantized.engine
    torch.manual_seed(2024)
    yield
    torch.set_num_threads(threads)
    if torch.backends.quantized.engine != engine:
        torch.backends.quantized.engine = engine


@pytest.fixture
def empty_caches() -> Iterator[None]:
    """Caches and counters are empty before a test, and the caches after it."""
    import cpuaccel

    cpuaccel.clear_caches()
    cpuaccel.reset_stats()
    yield
    cpuaccel.clear_caches()
