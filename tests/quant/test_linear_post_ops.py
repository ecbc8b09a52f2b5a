"""quantized::linear_leaky_relu and linear_tanh, which torch has for the engine "onednn" only."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from _reference import assert_agree, assert_quantum, requantize
from _strategies import LinearCase, Values, linears
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from quant._engine import assert_ran, counted, engine, off, ours, running
from quant._layers import Q, pack_linear, real_of

ops = pytest.mark.parametrize("op", ["linear_leaky_relu", "linear_tanh"])
slopes = st.sampled_from([0.01, 0.1, 0.3, 1.0, -0.2, 0.0])


def _real(op: str, case: LinearCase, slope: float) -> Tensor:
    real = real_of(case)
    return torch.tanh(real) if op == "linear_tanh" else F.leaky_relu(real, slope)


def _run(op: str, case: LinearCase, slope: float, scale: float, zero_point: int) -> Tensor:
    arguments = [slope] if op == "linear_leaky_relu" else []
    return getattr(Q, op)(case.x, pack_linear(case), scale, zero_point, *arguments)


@st.composite
def _cases(draw: st.DrawFn) -> LinearCase:
    case = draw(linears())
    # torch rejects weights with zero points for these ops.
    return replace(case, values=replace(case.values, symmetric=True))


@ops
@given(case=_cases(), slope=slopes)
def test_torchs_onednn_engine_matches_the_reference(
    op: str, case: LinearCase, slope: float
) -> None:
    real = _real(op, case, slope)
    scale, zero_point = case.values.output_scale(real), case.values.y_zero_point
    with engine("onednn"), off():
        actual = _run(op, case, slope, scale, zero_point)
    expected = requantize(real, scale, zero_point)
    if actual.shape != real.shape:
        # torch returns an empty result in two dimensions, whatever the input has.
        assert not case.x.numel()
        return
    assert_quantum(actual, expected)


@ours
@ops
@given(case=_cases(), slope=slopes)
def test_matches_the_reference_and_torch(
    backend: str, op: str, case: LinearCase, slope: float
) -> None:
    real = _real(op, case, slope)
    scale, zero_point = case.values.output_scale(real), case.values.y_zero_point
    with running(backend), counted() as counts:
        actual = _run(op, case, slope, scale, zero_point)
    assert_quantum(actual, requantize(real, scale, zero_point))
    if case.x.numel():
        assert_ran(counts, op, backend)
        with engine("onednn"), off():
            assert_agree(actual, _run(op, case, slope, scale, zero_point))


@ours
@ops
def test_weights_with_zero_points_are_right_or_refused(backend: str, op: str) -> None:
    case = LinearCase((5,), 16, 8, "contiguous", Values(seed=9, symmetric=False))
    with running(backend):
        try:
            actual = _run(op, case, 0.2, 1 / 127, 128)
        except RuntimeError as error:
            if re.search("zero point|Didn't find engine", str(error)):
                return
            raise
    assert_quantum(actual, requantize(_real(op, case, 0.2), 1 / 127, 128))


@ours
def test_one_packed_object_serves_every_form(backend: str) -> None:
    case = LinearCase((5,), 16, 8, "contiguous", Values(seed=9))
    real = real_of(case)
    with running(backend):
        packed = pack_linear(case)
        for _ in range(2):
            assert_quantum(
                Q.linear_tanh(case.x, packed, 0.0077, 128),
                requantize(torch.tanh(real), 0.0077, 128),
            )
            assert_quantum(Q.linear(case.x, packed, 0.21, 90), requantize(real, 0.21, 90))
            assert_quantum(
                Q.linear_leaky_relu(case.x, packed, 0.21, 90, 0.13),
                requantize(F.leaky_relu(real, 0.13), 0.21, 90),
            )
