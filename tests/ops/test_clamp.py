"""relu, relu6, hardtanh and clamp: integer limits, so every integer is torch's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from quant._engine import counted, needs_front_end, off, running
from torch import Tensor

from ops._compare import assert_fallback, assert_on_cpuaccel, assert_same, both, isas
from ops._quantizers import (
    DTYPES,
    assert_rounded,
    drawn_quantizers,
    every_value,
    layouts,
    quantizers,
    reals,
    shapes,
    tensor,
)

pytestmark = needs_front_end
Q = torch.ops.quantized

OPS: dict[str, tuple[Callable[[Tensor], Tensor], str, Callable[[Tensor], Tensor]]] = {
    "relu": (torch.relu, "relu", torch.relu),
    "relu6": (Q.relu6, "clamp", F.relu6),
    "hardtanh": (
        lambda x: F.hardtanh(x, -0.3, 0.7),
        "clamp",
        lambda x: F.hardtanh(x, -0.3, 0.7),
    ),
    "clamp": (lambda x: torch.clamp(x, -1, 2), "clamp", lambda x: x.clamp(-1, 2)),
    "clamp_low": (lambda x: torch.clamp(x, min=-0.2), "clamp", lambda x: x.clamp(min=-0.2)),
    "clamp_high": (lambda x: torch.clamp(x, max=0.9), "clamp", lambda x: x.clamp(max=0.9)),
    "quantized_clamp": (lambda x: Q.clamp(x, 0.1, 0.5), "clamp", lambda x: x.clamp(0.1, 0.5)),
}
each = pytest.mark.parametrize("name", OPS)


@each
@isas
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_value(name: str, isa: str, dtype: torch.dtype) -> None:
    call, counted_as, real = OPS[name]
    for quantizer in quantizers(40, 1, dtype):
        x = every_value(*quantizer, dtype)
        outcome = both(lambda x=x: call(x), isa)
        assert_same(outcome.ours, outcome.theirs)
        assert_on_cpuaccel(outcome.counts, counted_as)
        # The limit and the result are each rounded to the quantizer.
        assert_rounded(outcome.ours, real(reals(x)), 1e-4 + 4e-7 / quantizer[0])


@each
@given(shape=shapes, layout=layouts, q=drawn_quantizers(), seed=st.integers(0, 99))
def test_every_shape_and_layout(
    name: str, shape: tuple[int, ...], layout: str, q: tuple[float, int], seed: int
) -> None:
    call, counted_as, _ = OPS[name]
    x = tensor(shape, layout, q, seed)
    outcome = both(lambda: call(x))
    assert_same(outcome.ours, outcome.theirs)
    assert_on_cpuaccel(outcome.counts, counted_as)


@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "permuted"])
@pytest.mark.parametrize("name", ["relu_", "hardtanh_"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_in_place(name: str, layout: str, dtype: torch.dtype) -> None:
    call = {"relu_": torch.relu_, "hardtanh_": lambda x: F.hardtanh_(x, -0.2, 0.4)}[name]
    zero = 90 if dtype == torch.quint8 else -20
    ours, theirs = (tensor((2, 7, 5, 6), layout, (0.05, zero), 4, dtype) for _ in range(2))
    version = ours._version
    with running("auto"), counted() as counts:
        assert call(ours) is ours
    with off():
        call(theirs)
    assert_same(ours, theirs)
    assert_on_cpuaccel(counts, "relu" if name == "relu_" else "clamp")
    assert ours._version > version


def test_limits_the_wrong_way_round() -> None:
    outcome = both(lambda: torch.clamp(every_value(0.1, 9), 2.0, -1.0))
    assert_same(outcome.ours, outcome.theirs)
    assert_on_cpuaccel(outcome.counts, "clamp")


def test_unsupported_calls_fall_back() -> None:
    wide = torch._make_per_tensor_quantized_tensor(torch.arange(-9, 9, dtype=torch.int32), 0.1, 3)
    outcome = both(lambda: torch.relu(wide))
    assert_same(outcome.ours, outcome.theirs)
    assert_fallback(outcome.counts, "not quint8 or qint8")
    strided = tensor((4, 7), "sliced", (0.1, 3), 1)
    with running("auto"), counted() as counts:
        torch.relu_(strided)
    assert_fallback(counts, "input is not dense")
    for context in (running("auto"), off()):
        with context, pytest.raises(RuntimeError, match="At least one of"):
            torch.clamp(every_value(0.1, 3))


def test_relu6_in_place_falls_back() -> None:
    ours, theirs = every_value(0.1, 9), every_value(0.1, 9)
    with running("auto"), counted() as counts:
        Q.relu6(ours, True)
    with off():
        Q.relu6(theirs, True)
    assert_same(ours, theirs)
    assert_fallback(counts, "inplace=True")
