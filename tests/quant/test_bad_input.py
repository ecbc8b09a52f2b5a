"""Bad input raises an error that says what was wrong; it never ends the process."""

from __future__ import annotations

import re

import pytest
import torch
from _reference import Geometry, assert_quantum, conv_real, linear_real, requantize
from _strategies import Values

from quant import _bad_input as bad
from quant._bad_cases import CASES, TORCHS
from quant._engine import engine, needs_front_end, running
from quant._isolated import Outcome, outcomes
from quant._layers import Q

_ERRORS = {"RuntimeError", "ValueError", "TypeError", "IndexError", "NotImplementedError"}


@pytest.fixture(scope="module")
def ours() -> dict[str, Outcome]:
    return outcomes("quant._bad_cases", CPUACCEL="1")


@pytest.fixture(scope="module")
def torchs() -> dict[str, Outcome]:
    # FBGEMM's messages: engine x86 has them too, but on VNNI machines its convolutions have
    # oneDNN's.
    return outcomes("quant._bad_cases", "TORCHS", engine="fbgemm", CPUACCEL="0")


def _check(name: str, outcome: Outcome) -> None:
    case = CASES[name]
    if outcome.ending == "returned":
        assert case.may_return, "no error"
        return
    assert outcome.ending in _ERRORS, f"{outcome.ending}: {outcome.message}"
    assert outcome.message.strip()
    found = re.search(case.pattern, outcome.message, re.IGNORECASE | re.DOTALL)
    assert found, f"not {case.pattern!r}: {outcome.message}"


@needs_front_end
@pytest.mark.parametrize("name", CASES)
def test_is_refused(name: str, ours: dict[str, Outcome]) -> None:
    _check(name, ours[name])


@pytest.mark.parametrize("name", TORCHS)
def test_torch_says_the_same(name: str, torchs: dict[str, Outcome]) -> None:
    """Users know torch's words, so the errors must contain them."""
    _check(name, torchs[name])


@needs_front_end
@pytest.mark.parametrize("of", ["fbgemm", "onednn", "qnnpack", "x86"])
@pytest.mark.parametrize("used_under", ["x86", "fbgemm", "onednn", "qnnpack"])
def test_objects_of_any_engine_run_under_any_engine(of: str, used_under: str) -> None:
    """In torch a packed object has its own kernel, whatever the current engine is."""
    values = Values(seed=2, x_zero_point=5, y_zero_point=40)
    weight, conv_weight = values.weight((8, 16)), values.weight((8, 4, 3, 3))
    x, image = values.activation((3, 16), "offset"), values.activation((1, 4, 6, 6), "offset")
    with running("auto"):
        with engine(of):
            linear, conv = bad.linear(weight), bad.conv(conv_weight)
        with engine(used_under):
            y, z = Q.linear(x, linear, 0.3, 40), Q.conv2d(image, conv, 0.3, 40)
    assert_quantum(y, requantize(linear_real(x, weight, None), 0.3, 40))
    geometry = Geometry((1, 1), (0, 0), (1, 1))
    assert_quantum(z, requantize(conv_real(image, conv_weight, None, geometry), 0.3, 40))


@needs_front_end
def test_the_engine_is_as_usable_after_an_error() -> None:
    values = Values(seed=3)
    weight, x = values.weight((8, 16)), values.activation((3, 16), "offset")
    with running("auto"):
        packed = bad.linear(weight)
        for _ in range(3):
            with pytest.raises(RuntimeError):
                Q.linear(x[:, :15], packed, 0.3, 0)
            with pytest.raises(RuntimeError):
                bad.linear(weight, torch.ones(3))
        assert_quantum(
            Q.linear(x, packed, 0.3, 0), requantize(linear_real(x, weight, None), 0.3, 0)
        )
