"""Float ops on CPUs that nobody measured: what is suggested, and what calls learn there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from _other_cpus import as_cpu
from _settings import setting
from quant._engine import counted, needs_plugin
from torch.nn import functional as F

import cpuaccel
from cpuaccel import matmul
from cpuaccel._native import load

pytestmark = [needs_plugin, pytest.mark.usefixtures("foreign")]

_FOREIGN = ["GenuineIntel Alder Lake", "AuthenticAMD Zen 9", "NobodysCpu", "AuthenticAMD Zen 4"]
_ANY_SHARE = 1e12


@pytest.fixture
def foreign() -> Iterator[None]:
    """Calls learn as on a CPU without rows, with as much time for probes as they want."""
    native = load()
    with as_cpu("NobodysCpu"), setting("learn", True):
        native.clear_learned_choices()
        native.set_learning_share(_ANY_SHARE)
        yield
        native.set_learning_share(0.01)
        native.clear_learned_choices()


def _learning() -> dict[str, float]:
    return dict(cpuaccel.stats()["learning"])


def _until_chosen(call: object, calls: int = 400) -> None:
    with torch.no_grad():
        for _ in range(calls):
            call()  # type: ignore[operator]
            if _learning()["chosen"] and not _learning()["open"]:
                return
    pytest.fail(f"nothing was chosen in {calls} calls: {_learning()}")


def _product() -> object:
    src, weights = torch.randn(96, 160), torch.randn(96, 160).t()
    return lambda: torch.mm(src, weights)


def _linear() -> object:
    layer, src = torch.nn.Linear(160, 96), torch.randn(64, 160)
    return lambda: layer(src)


def _batches() -> object:
    src, weights = torch.randn(8, 48, 64), torch.randn(8, 64, 48)
    return lambda: torch.bmm(src, weights)


def _convolution() -> object:
    layer, image = torch.nn.Conv2d(16, 32, 3), torch.randn(1, 16, 28, 28)
    return lambda: layer(image)


def _attention() -> object:
    query = torch.randn(1, 4, 40, 32)
    return lambda: F.scaled_dot_product_attention(query, query, query)


_OPS = pytest.mark.parametrize(
    "make", [_product, _linear, _batches, _convolution, _attention], ids=lambda make: make.__name__
)


@_OPS
def test_calls_learn_and_their_results_stay_right(make: object) -> None:
    call = make()  # type: ignore[operator]
    with torch.no_grad(), cpuaccel.enabled(False):
        expected = call()
    results = []
    _until_chosen(lambda: results.append(call()))
    for result in [*results, call()]:
        torch.testing.assert_close(result, expected, rtol=2e-5, atol=2e-5)
    assert _learning()["probes"] > 0 or _learning()["chosen"] > 0


@_OPS
def test_probes_are_not_counted_as_calls(make: object) -> None:
    call = make()  # type: ignore[operator]
    made = 0

    def counted_call() -> None:
        nonlocal made
        made += 1
        call()

    with counted() as counts:
        _until_chosen(counted_call)
    assert sum(counts.calls.values()) + sum(counts.fallbacks.values()) <= made


def test_small_ops_learn_nothing() -> None:
    for _ in range(20):
        torch.mm(torch.ones(4, 8), torch.ones(8, 4))
    assert _learning()["open"] == _learning()["chosen"] == 0


@pytest.mark.parametrize("out", [False, True])
def test_deterministic_settings_take_the_tables_choice(out: bool) -> None:
    src, weights = torch.randn(96, 160), torch.randn(160, 96)
    result = torch.empty(96, 96)

    def product() -> torch.Tensor:
        return torch.mm(src, weights, out=result) if out else torch.mm(src, weights)

    with torch.no_grad(), setting("deterministic", True):
        first = product().clone()
        for _ in range(50):
            assert torch.equal(product(), first)
    torch.use_deterministic_algorithms(True)
    try:
        for _ in range(50):
            assert torch.equal(product(), first)
    finally:
        torch.use_deterministic_algorithms(False)
    assert _learning()["probes"] == 0


def test_a_budget_of_nothing_tries_nothing() -> None:
    load().set_learning_share(0.0)
    call = _product()
    for _ in range(100):
        call()  # type: ignore[operator]
    assert _learning()["probes"] == 0
    assert _learning()["open"] == 1


@pytest.mark.parametrize("cpu", _FOREIGN)
@pytest.mark.parametrize("isa", ["avx2", "auto"])
def test_foreign_cpus_are_suggested_rows_and_explained(cpu: str, isa: str) -> None:
    native = load()
    if not native.isa().startswith("avx"):
        pytest.skip(f"isa() is {native.isa()}: these are names of x86")
    with setting("max_isa", isa), as_cpu(cpu):
        places = matmul.where_measured(native)
        on_amd = cpu.startswith("AuthenticAMD")
        if on_amd and native.isa().startswith("avx512"):
            assert any(place.startswith("Zen 4, ") for place in places)
        if on_amd and isa == "avx2":
            assert any(place.startswith("Zen 3, ") for place in places)
        for place, here in places.items():
            assert here == place.startswith(cpu.partition(" ")[2] + ", ")
        text = str(cpuaccel.explain(torch.nn.Linear(3, 2)))
        assert "Matrix products: " in text
        assert ("measured elsewhere" in text) == (False in places.values())
        src, weights = torch.randn(64, 160), torch.randn(160, 96)
        expected = (src.double() @ weights.double()).float()
        torch.testing.assert_close(torch.mm(src, weights), expected)


def test_measured_cpus_learn_nothing_of_products() -> None:
    native = load()
    if not native.isa().startswith("avx512") or native.has_amx_arithmetic():
        pytest.skip(f"isa() is {native.isa()}: Zen 4 has AVX-512 and no AMX")
    with as_cpu("AuthenticAMD Zen 4"):
        for _ in range(20):
            torch.mm(torch.ones(96, 160), torch.ones(160, 96))
            F.conv2d(torch.ones(1, 16, 28, 28), torch.ones(32, 16, 3, 3))
        assert _learning()["open"] == _learning()["chosen"] == 0


_LEARN = """
import torch, cpuaccel
from cpuaccel._native import load
load().set_learning_share(1e12)
src, weights = torch.ones(96, 160), torch.ones(160, 96)
before = cpuaccel.stats()["learning"]
for _ in range(400):
    torch.mm(src, weights)
after = cpuaccel.stats()["learning"]
print(after["chosen"], after["open"], after["probes"])
"""


def test_the_next_process_begins_with_what_this_one_learned(tmp_path: Path) -> None:
    environment = os.environ | {
        "CPUACCEL_RANKS": str(tmp_path / "tuning.csv"),
        "CPUACCEL_CPU": "NobodysCpu",
        "CPUACCEL_LEARN": "1",
    }

    def run() -> list[int]:
        done = subprocess.run(
            [sys.executable, "-c", _LEARN],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return [int(word) for word in done.stdout.split()]

    first = run()
    assert first[0] == 1, f"chosen, open, probes: {first}"
    assert "learned product" in (tmp_path / "tuning.csv").read_text()
    assert run() == [1, 0, 0]
