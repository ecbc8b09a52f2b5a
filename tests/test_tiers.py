"""tests/_tiers.py: what it names exists, and its samples are spaced evenly."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import _tiers
import pytest


def _exists(name: str) -> bool:
    module, _, function = name.partition("::")
    text = (Path(__file__).parent / module).read_text()
    return not function or f"\ndef {function}(" in text


@pytest.mark.parametrize("name", _tiers.FULL_ONLY)
def test_what_the_full_tier_alone_has_exists(name: str) -> None:
    assert _exists(name)
    case = "" if "::" in name else "::test_anything"
    items = _items(f"tests/{name}{case}[1]")
    assert _tiers.split(items) == ([], items)


def _items(*ids: str) -> list[Any]:
    return [SimpleNamespace(nodeid=each) for each in ids]


def test_a_function_keeps_its_first_cases_evenly_spaced() -> None:
    cases = _items(*(f"tests/ops/test_cat.py::test_sizes[{number}]" for number in range(50)))
    small, others = _tiers.split(cases)
    assert small == cases[::10]
    assert len(others) == 45


@pytest.mark.parametrize("name", sorted(_tiers.SLOW))
def test_a_slow_test_exists_and_keeps_two_cases(name: str) -> None:
    assert _exists(name)
    cases = _items(*(f"tests/{name}[{number}]" for number in range(10)))
    assert _tiers.split(cases)[0] == cases[::5]


def test_few_cases_stay_and_modules_of_the_full_tier_go() -> None:
    few = _items("tests/ops/test_cat.py::test_sizes[1]", "tests/ops/test_cat.py::test_empty")
    long = _items("tests/compile/test_nets.py::test_net[resnet18]")
    assert _tiers.split(few + long) == (few, long)
