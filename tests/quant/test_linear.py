"""Static quantized::linear and its relu form."""

from __future__ import annotations

import pytest
import torch
from _reference import assert_agree, assert_quantum, linear_real, requantize
from _strategies import LinearCase, Values, linears
from hypothesis import given
from torch import Tensor

from quant._engine import INTREE, assert_ran, backends, counted, needs_front_end, ours, running
from quant._layers import Q, assert_same_weight, pack_linear, real_of

relu_forms = pytest.mark.parametrize("relu", [False, True], ids=["plain", "relu"])


def _run(case: LinearCase, relu: bool, scale: float) -> Tensor:
    op = Q.linear_relu if relu else Q.linear
    return op(case.x, pack_linear(case), scale, case.values.y_zero_point)


@backends
@relu_forms
@given(case=linears())
def test_matches_the_reference_and_torch(backend: str, relu: bool, case: LinearCase) -> None:
    real = real_of(case)
    if relu:
        real = real.clamp(min=0)
    scale = case.values.output_scale(real)
    with running(backend), counted() as counts:
        actual = _run(case, relu, scale)
    assert_quantum(actual, requantize(real, scale, case.values.y_zero_point))
    assert actual.is_contiguous()
    if case.x.numel():
        assert_ran(counts, "linear", backend)
    if backend != INTREE:
        with running(INTREE):
            assert_agree(actual, _run(case, relu, scale))


@backends
@pytest.mark.parametrize(
    ("lead", "features_in", "features_out"),
    [((1,), 1, 1), ((0,), 8, 4), ((3, 0), 8, 4), ((1, 1, 1), 3, 1), ((300,), 130, 67)],
    ids=str,
)
def test_edge_shapes(
    backend: str, lead: tuple[int, ...], features_in: int, features_out: int
) -> None:
    case = LinearCase(
        lead, features_in, features_out, "contiguous", Values(x_zero_point=7, per_channel=True)
    )
    scale = case.values.output_scale(real_of(case))
    with running(backend):
        actual = _run(case, False, scale)
    assert actual.shape == (*lead, features_out)
    assert_quantum(actual, requantize(real_of(case), scale, 0))


@ours
def test_one_packed_object_serves_every_batch_and_scale(backend: str) -> None:
    case = LinearCase((4,), 33, 17, "contiguous", Values(seed=3, x_zero_point=5))
    with running(backend):
        packed = pack_linear(case)
        for rows, scale, zero_point in [(1, 0.31, 0), (7, 0.31, 0), (1, 0.17, 99), (64, 0.31, 7)]:
            x = case.values.activation((rows, 33), "contiguous", stream=rows)
            expected = requantize(linear_real(x, case.weight, case.bias), scale, zero_point)
            assert_quantum(Q.linear(x, packed, scale, zero_point), expected)


@ours
def test_twice_the_same_input_is_bitwise_the_same(backend: str) -> None:
    case = LinearCase((50,), 64, 48, "contiguous", Values(seed=4, x_zero_point=60))
    with running(backend):
        packed = pack_linear(case)
        first = Q.linear(case.x, packed, 0.3, 4)
        assert all(torch.equal(first, Q.linear(case.x, packed, 0.3, 4)) for _ in range(3))


@backends
def test_unpack_gives_the_weight_and_bias_back(backend: str) -> None:
    for per_channel in (False, True):
        values = Values(seed=5, per_channel=per_channel, symmetric=False)
        case = LinearCase((1,), 19, 11, "contiguous", values)
        with running(backend):
            weight, bias = Q.linear_unpack(pack_linear(case))
        assert_same_weight(weight, case.weight)
        assert torch.equal(bias, case.bias)


@backends
def test_a_bias_changed_in_place_is_seen(backend: str) -> None:
    """Bias correction relies on it: torch keeps a reference to the given tensor, not a copy."""
    bias = torch.zeros(6)
    case = LinearCase((3,), 8, 6, "contiguous", Values(seed=6, bias=False))
    with running(backend):
        packed = Q.linear_prepack(case.weight, bias)
        Q.linear(case.x, packed, 0.4, 100)
        bias += 5
        actual = Q.linear(case.x, packed, 0.4, 100)
    assert_quantum(actual, requantize(linear_real(case.x, case.weight, bias), 0.4, 100))


@needs_front_end
def test_plain_float16_linear_stays_torchs() -> None:
    with running("auto"), counted() as counts:
        packed = Q.linear_prepack_fp16(torch.randn(8, 16), torch.randn(8))
        Q.linear_dynamic_fp16(torch.randn(2, 16), packed)
    assert not counts.calls
