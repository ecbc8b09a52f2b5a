"""A damaged or foreign file is an error in Python; it never ends the process."""

from __future__ import annotations

import pytest

from quant import _damaged
from quant._engine import needs_front_end
from quant._isolated import Outcome, outcomes

# What torch, zipfile and pickle raise for an invalid file.
_ERRORS = {
    "AttributeError",
    "EOFError",
    "IndexError",
    "KeyError",
    "NotImplementedError",
    "RuntimeError",
    "TypeError",
    "UnpicklingError",
    "ValueError",
}


@pytest.fixture(scope="module")
def ended() -> dict[str, Outcome]:
    return outcomes("quant._damaged", CPUACCEL="1")


@needs_front_end
@pytest.mark.parametrize("name", [n for n in _damaged.CASES if not n.startswith("good ")])
def test_is_refused(name: str, ended: dict[str, Outcome]) -> None:
    outcome = ended[name]
    assert outcome.ending in _ERRORS, f"{outcome.ending}: {outcome.message}"
    assert outcome.message.strip(), "an error without words"


@needs_front_end
@pytest.mark.parametrize("name", [f"good {n}" for n in _damaged.GOOD])
def test_the_same_by_the_same_way_is_taken(name: str, ended: dict[str, Outcome]) -> None:
    assert ended[name] == Outcome("returned")
