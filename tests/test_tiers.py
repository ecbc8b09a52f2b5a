"""tests/_tiers.py: the modules that it names exist, and its samples are spaced evenly."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import _tiers
import pytest


@pytest.mark.parametrize("module", _tiers.FULL_ONLY)
def test_a_module_of_the_full_tier_exists(module: str) -> None:
    assert (Path(__file__).parent / module).is_file()


def _items(*ids: str) -> list[Any]:
    return [SimpleNamespace(nodeid=each) for each in ids]


def test_a_function_keeps_its_first_cases_evenly_spaced() -> None:
    cases = _items(*(f"tests/ops/test_cat.py::test_sizes[{number}]" for number in range(48)))
    small, others = _tiers.split(cases)
    assert small == cases[::6]
    assert len(others) == 40


@pytest.mark.parametrize("name", sorted(_tiers.SLOW))
def test_a_slow_test_exists_and_keeps_two_cases(name: str) -> None:
    module, function = name.split("::")
    assert f"\ndef {function}(" in (Path(__file__).parent / module).read_text()
    cases = _items(*(f"tests/{name}[{number}]" for number in range(10)))
    assert _tiers.split(cases)[0] == cases[::5]


def test_few_cases_stay_and_modules_of_the_full_tier_go() -> None:
    few = _items("tests/ops/test_cat.py::test_sizes[1]", "tests/ops/test_cat.py::test_empty")
    long = _items("tests/compile/test_nets.py::test_net[resnet18]")
    assert _tiers.split(few + long) == (few, long)
