"""The float64 reference itself: its rules for agreement, and its quantization parameters."""

from __future__ import annotations

import pytest
import torch
from _reference import Expected, assert_agree, assert_integers, choose_qparams
from hypothesis import given
from hypothesis import strategies as st

from quant._engine import needs_torch_ao

finite = st.floats(-1e6, 1e6, width=32, allow_subnormal=False)


@given(low=finite, high=finite, reduce_range=st.booleans())
def test_choose_qparams_is_torchs(low: float, high: float, reduce_range: bool) -> None:
    x = torch.tensor([low, high])
    scale, zero_point = choose_qparams(x, reduce_range)
    torch_scale, torch_zero_point = torch._choose_qparams_per_tensor(x, reduce_range)
    assert scale == pytest.approx(torch_scale, rel=1e-6)
    assert zero_point == torch_zero_point


@pytest.mark.parametrize("low", [0.0, -1e-7, -1e-40])
def test_choose_qparams_of_tiny_ranges_is_torchs(low: float) -> None:
    x = torch.tensor([low, 1e-6])
    scale, zero_point = choose_qparams(x, True)
    torch_scale, torch_zero_point = torch._choose_qparams_per_tensor(x, True)
    assert scale == pytest.approx(torch_scale, rel=1e-6)
    assert zero_point == torch_zero_point


def _expected(value: float) -> Expected:
    unrounded = torch.full((100,), 10.0, dtype=torch.float64)
    unrounded[7] = value
    return Expected(unrounded, 1.0, 0)


def test_one_quantum_near_a_boundary_agrees() -> None:
    actual = torch.full((100,), 10, dtype=torch.uint8)
    assert_integers(actual, _expected(10.5004))
    assert_integers(actual, _expected(9.4998))


@pytest.mark.parametrize("value", [10.502, 9.49, 11.0, 200.0])
def test_one_quantum_away_from_a_boundary_does_not(value: float) -> None:
    actual = torch.full((100,), 10, dtype=torch.uint8)
    with pytest.raises(AssertionError, match="1 of 100 elements are wrong"):
        assert_integers(actual, _expected(value))


def test_many_near_a_boundary_do_not() -> None:
    values = 10.5001 + torch.arange(5000, dtype=torch.float64) * 1e-8
    expected = Expected(values, 1.0, 0)
    with pytest.raises(AssertionError, match="differ by a quantum"):
        assert_integers(torch.full((5000,), 10, dtype=torch.uint8), expected)


def test_one_value_near_a_boundary_counts_once() -> None:
    expected = Expected(torch.full((5000,), 10.5001, dtype=torch.float64), 1.0, 0)
    assert_integers(torch.full((5000,), 10, dtype=torch.uint8), expected)


def test_out_of_range_is_clamped() -> None:
    expected = Expected(torch.tensor([-3.0, 300.0], dtype=torch.float64), 1.0, 0)
    assert_integers(torch.tensor([0, 255], dtype=torch.uint8), expected)


@needs_torch_ao
def test_two_quanta_do_not_agree() -> None:
    a = torch._make_per_tensor_quantized_tensor(torch.zeros(9, dtype=torch.uint8), 0.1, 0)
    b = torch._make_per_tensor_quantized_tensor(torch.full((9,), 2, dtype=torch.uint8), 0.1, 0)
    with pytest.raises(AssertionError, match="2 quanta apart"):
        assert_agree(a, b)
