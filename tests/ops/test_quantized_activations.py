"""Activations by table: torch's results, bit for bit, and the rounded float64 definition.

torch's vectorized kernels make the tables, and their exp, tanh and erf are off by a unit or two in
the last place of float32. So against float64 an integer may differ by one only if the real result
is within a thousandth of a quantum of a tie.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from quant._engine import counted, engine, needs_front_end, off, running
from torch import Tensor

from ops._compare import assert_fallback, assert_like, assert_on_cpuaccel, assert_same, both, isas
from ops._quantizers import (
    DTYPES,
    assert_rounded,
    drawn_quantizers,
    dtypes,
    every_value,
    layouts,
    quantizers,
    reals,
    shapes,
    tensor,
)

pytestmark = needs_front_end
Q = torch.ops.quantized


@dataclass(frozen=True)
class Activation:
    """An op, the name it is counted under, and its float64 definition."""

    call: Callable[[Tensor, float, int], Tensor]
    """Takes the tensor and an output quantizer, which some ops ignore."""
    counted: str
    real: Callable[[Tensor], Tensor]
    keeps_format: bool = True


def _celu(x: Tensor) -> Tensor:
    return torch.where(x >= 0, x, 1.5 * torch.expm1(x / 1.5))


ACTIVATIONS = {
    "sigmoid": Activation(lambda x, s, z: torch.sigmoid(x), "sigmoid", torch.sigmoid),
    "tanh": Activation(lambda x, s, z: torch.tanh(x), "tanh", torch.tanh),
    "hardsigmoid": Activation(lambda x, s, z: F.hardsigmoid(x), "hardsigmoid", F.hardsigmoid),
    "gelu": Activation(lambda x, s, z: F.gelu(x), "gelu", F.gelu),
    "gelu_tanh": Activation(
        lambda x, s, z: F.gelu(x, approximate="tanh"),
        "gelu",
        lambda x: F.gelu(x, approximate="tanh"),
    ),
    "leaky_relu": Activation(
        lambda x, s, z: F.leaky_relu(x, 0.07), "leaky_relu", lambda x: F.leaky_relu(x, 0.07)
    ),
    "quantized_sigmoid": Activation(lambda x, s, z: Q.sigmoid(x, s, z), "sigmoid", torch.sigmoid),
    "quantized_hardswish": Activation(
        lambda x, s, z: Q.hardswish(x, s, z), "hardswish", F.hardswish
    ),
    "quantized_leaky_relu": Activation(
        lambda x, s, z: Q.leaky_relu(x, 0.2, False, s, z),
        "leaky_relu",
        lambda x: F.leaky_relu(x, 0.2),
    ),
    "quantized_elu": Activation(lambda x, s, z: Q.elu(x, s, z), "elu", F.elu, False),
    "quantized_celu": Activation(lambda x, s, z: Q.celu(x, s, z, 1.5), "elu", _celu, False),
}
each = pytest.mark.parametrize("name", ACTIVATIONS)


@each
@isas
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_value_is_torchs(name: str, isa: str, dtype: torch.dtype) -> None:
    activation = ACTIVATIONS[name]
    for source, result in zip(quantizers(12, 1, dtype), quantizers(12, 2, dtype), strict=True):
        x = every_value(*source, dtype)
        outcome = both(lambda x=x, result=result: activation.call(x, *result), isa)
        assert_same(outcome.ours, outcome.theirs)
        assert_on_cpuaccel(outcome.counts, activation.counted)


@each
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_value_is_the_rounded_definition(name: str, dtype: torch.dtype) -> None:
    activation = ACTIVATIONS[name]
    for source, result in zip(quantizers(40, 3, dtype), quantizers(40, 4, dtype), strict=True):
        x = every_value(*source, dtype)
        with running("auto"):
            y = activation.call(x, *result)
        real = activation.real(reals(x))
        size = torch.maximum(reals(x).abs(), real.abs())
        assert_rounded(y, real, 1e-3 + 4e-7 * size / y.q_scale())


@each
@given(data=st.data())
def test_every_shape_and_layout(name: str, data: st.DataObject) -> None:
    activation = ACTIVATIONS[name]
    dtype = data.draw(dtypes)
    result = data.draw(drawn_quantizers(dtype))
    x = tensor(
        data.draw(shapes),
        data.draw(layouts),
        data.draw(drawn_quantizers(dtype)),
        data.draw(st.integers(0, 99)),
        dtype,
    )
    outcome = both(lambda: activation.call(x, *result))
    assert_like(outcome.ours, outcome.theirs)
    # torch's scalar formula computes the last elements of a tensor, and rounds differently.
    distance = (outcome.ours.int_repr().int() - outcome.theirs.int_repr().int()).abs()
    assert not distance.numel() or int(distance.max()) <= 1
    assert_on_cpuaccel(outcome.counts, activation.counted)


@each
@pytest.mark.parametrize("shape", [(2, 5, 6, 7), (1, 64, 56, 56), (2, 3, 4, 5, 6)])
def test_channels_last(name: str, shape: tuple[int, ...]) -> None:
    activation = ACTIVATIONS[name]
    x = tensor(shape, "channels_last", (0.05, 100), 3)
    outcome = both(lambda: activation.call(x, 0.02, 30))
    assert_like(outcome.ours, outcome.theirs)
    assert outcome.ours.is_contiguous() != activation.keeps_format
    table = both(lambda: activation.call(every_value(0.05, 100), 0.02, 30)).theirs.int_repr()
    assert torch.equal(outcome.ours.int_repr(), table[x.int_repr().long()])
    assert_on_cpuaccel(outcome.counts, activation.counted)


def test_leaky_relu_in_place() -> None:
    for layout in ("contiguous", "channels_last", "permuted"):
        ours = tensor((2, 7, 5, 6), layout, (0.05, 90), 4)
        theirs = ours.clone(memory_format=torch.preserve_format)
        if layout == "permuted":
            theirs = tensor((2, 7, 5, 6), layout, (0.05, 90), 4)
        with running("auto"), counted() as counts:
            assert F.leaky_relu_(ours, 0.1) is ours
        with off():
            F.leaky_relu_(theirs, 0.1)
        assert_on_cpuaccel(counts, "leaky_relu")
        distance = (ours.int_repr().int() - theirs.int_repr().int()).abs()
        assert int(distance.max()) <= 1


def test_arguments_have_tables_of_their_own() -> None:
    x = every_value(0.05, 128)
    with running("auto"):
        first = [F.leaky_relu(x, slope).int_repr() for slope in (0.1, 0.2, 1, 1.0)]
        again = [F.leaky_relu(x, slope).int_repr() for slope in (0.1, 0.2, 1, 1.0)]
    assert not torch.equal(first[0], first[1])
    assert torch.equal(first[2], first[3])
    for one, other in zip(first, again, strict=True):
        assert torch.equal(one, other)


def test_more_tables_than_are_cached() -> None:
    cases = quantizers(700, 5)
    with running("auto"):
        first = [torch.sigmoid(every_value(*q)).int_repr() for q in cases]
        again = [torch.sigmoid(every_value(*q)).int_repr() for q in cases]
    with off():
        theirs = [torch.sigmoid(every_value(*q)).int_repr() for q in cases]
    for one, other, expected in zip(first, again, theirs, strict=True):
        assert torch.equal(one, expected)
        assert torch.equal(other, expected)


def test_threads() -> None:
    cases = quantizers(30, 6)
    with off():
        theirs = [torch.tanh(every_value(*q)).int_repr() for q in cases]
    failures: list[int] = []

    def work() -> None:
        for _ in range(10):
            for i, q in enumerate(cases):
                if not torch.equal(torch.tanh(every_value(*q)).int_repr(), theirs[i]):
                    failures.append(i)

    with running("auto"):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures


def test_unsupported_calls_fall_back() -> None:
    channels = torch.quantize_per_channel(
        torch.randn(4, 5), torch.full((4,), 0.1), torch.zeros(4).int(), 0, torch.quint8
    )
    wide = torch.quantize_per_tensor(torch.randn(9), 0.1, 0, torch.qint32)
    outcome = both(lambda: torch.sigmoid(wide))
    assert_same(outcome.ours, outcome.theirs)
    assert_fallback(outcome.counts, "not quint8 or qint8")
    with running("auto"), counted() as counts, pytest.raises(RuntimeError):
        torch.sigmoid(channels)
    assert_fallback(counts, "quantized per channel")
    outcome = both(lambda: Q.leaky_relu(every_value(0.1, 5), 0.1, True, 0.1, 5))
    assert_fallback(outcome.counts, "inplace=True")


@pytest.mark.parametrize(
    "call",
    [
        lambda x: Q.celu(x, 0.1, 3, 0),
        lambda x: F.gelu(x, approximate="cosh"),
        lambda x: F.leaky_relu(x, 1j),
    ],
)
def test_errors_are_torchs(call: Callable[[Tensor], Tensor]) -> None:
    x = every_value(0.1, 5)
    messages = []
    for context in (running("auto"), off()):
        with context, pytest.raises((RuntimeError, TypeError)) as error:
            call(x)
        messages.append(str(error.value).splitlines()[0])
    assert messages[0] == messages[1]


def test_empty_and_zero_dimensional() -> None:
    for x in (tensor((0, 3), "contiguous", (0.1, 3), 1), every_value(0.1, 3)[7]):
        outcome = both(lambda x=x: torch.sigmoid(x))
        assert_same(outcome.ours, outcome.theirs)
        assert_on_cpuaccel(outcome.counts, "sigmoid")


def test_another_engine_is_left_alone() -> None:
    with engine("fbgemm"), counted() as counts:
        torch.sigmoid(every_value(0.1, 3))
    assert not counts.calls
    assert not counts.fallbacks
