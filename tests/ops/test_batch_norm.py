"""quantized::batch_norm2d against torch's own kernel (equal) and the float64 definition."""

from __future__ import annotations

import pytest
import torch
from _reference import assert_quantum, centered, requantize
from _strategies import Values
from hypothesis import given
from hypothesis import strategies as st
from quant._engine import needs_front_end
from torch import Tensor

from ops._compare import (
    LAYOUTS,
    assert_fallback,
    assert_on_cpuaccel,
    assert_same,
    both,
    image,
    images,
    isas,
    same_error,
    values,
)

pytestmark = needs_front_end
Q = torch.ops.quantized
EPS = 1e-5


class Norm:
    """Random parameters for `channels` channels, and a quantizer for the result."""

    def __init__(self, channels: int, source: Values) -> None:
        generator = source.generator(2)
        self.weight = torch.randn(channels, generator=generator)
        self.bias = torch.randn(channels, generator=generator)
        self.mean = torch.randn(channels, generator=generator)
        self.var = torch.rand(channels, generator=generator) + 0.1
        self.scale = source.scale(3, 0.01, 0.1)
        self.zero_point = source.y_zero_point

    def run(self, x: Tensor, relu: bool) -> Tensor:
        op = Q.batch_norm2d_relu if relu else Q.batch_norm2d
        parameters = (self.weight, self.bias, self.mean, self.var, EPS)
        return op(x, *parameters, self.scale, self.zero_point)

    def real(self, x: Tensor, relu: bool) -> Tensor:
        def channel(values: Tensor) -> Tensor:
            return values.double()[None, :, None, None]

        # The factor is in single precision, as torch defines it; later rounding is the engine's.
        factor = (1.0 / torch.sqrt(self.var + EPS)) * self.weight
        shift = self.bias - self.mean * (1.0 / torch.sqrt(self.var + EPS)) * self.weight
        real = centered(x) * x.q_scale() * channel(factor) + channel(shift)
        return real.clamp(min=0) if relu else real


@isas
@given(x=images(("channels_last",)), source=values(), relu=st.booleans())
def test_channels_last_runs_here(isa: str, x: Tensor, source: Values, relu: bool) -> None:
    norm = Norm(x.size(1), source)
    outcome = both(lambda: norm.run(x, relu), isa)
    assert_same(outcome.ours, outcome.theirs)
    assert_on_cpuaccel(outcome.counts, "batch_norm2d")
    assert_quantum(outcome.ours, requantize(norm.real(x, relu), norm.scale, norm.zero_point))


@given(x=images(LAYOUTS), source=values(), relu=st.booleans())
def test_any_layout_is_as_torch_has_it(x: Tensor, source: Values, relu: bool) -> None:
    norm = Norm(x.size(1), source)
    outcome = both(lambda: norm.run(x, relu))
    assert_same(outcome.ours, outcome.theirs)
    assert outcome.counts.calls["batch_norm2d.cpuaccel"] == 1


@pytest.mark.parametrize("channels", [3, 64, 1000])
def test_sizes_of_real_networks(channels: int) -> None:
    x = image(2, channels, 14, 14)
    norm = Norm(channels, Values(seed=4, y_zero_point=100))
    outcome = both(lambda: norm.run(x, relu=True))
    assert_same(outcome.ours, outcome.theirs)


def test_threads_agree() -> None:
    x = image(2, 96, 40, 40)
    norm = Norm(96, Values(seed=4, y_zero_point=100))
    torch.set_num_threads(1)
    one = both(lambda: norm.run(x, relu=True)).ours
    torch.set_num_threads(4)
    assert_same(both(lambda: norm.run(x, relu=True)).ours, one)


def test_a_variance_of_zero_falls_back() -> None:
    x = image(1, 8, 4, 4)
    norm = Norm(8, Values())
    norm.var[3] = -EPS
    outcome = both(lambda: norm.run(x, relu=False))
    assert_same(outcome.ours, outcome.theirs)
    assert_fallback(outcome.counts, "a channel's factor or offset is too large")


def test_strided_parameters_fall_back() -> None:
    x = image(1, 8, 4, 4)
    norm = Norm(8, Values())
    norm.weight = torch.randn(16)[::2]
    outcome = both(lambda: norm.run(x, relu=False))
    assert_fallback(
        outcome.counts, "weight, bias, mean or var is not a dense float32 value for each channel"
    )


def test_qint8_falls_back() -> None:
    x = torch.quantize_per_tensor(torch.randn(1, 8, 4, 4), 0.1, 0, torch.qint8)
    x = x.contiguous(memory_format=torch.channels_last)
    norm = Norm(8, Values())
    outcome = both(lambda: norm.run(x, relu=True))
    assert_same(outcome.ours, outcome.theirs)
    assert_fallback(outcome.counts, "not quint8")


def test_no_images() -> None:
    x = image(1, 8, 4, 4)[:0]
    outcome = both(lambda: Norm(8, Values()).run(x, relu=True))
    assert_same(outcome.ours, outcome.theirs)


def test_torch_says_what_is_wrong() -> None:
    norm = Norm(7, Values())
    same_error(lambda: norm.run(image(1, 8, 4, 4), relu=True))
    same_error(lambda: norm.run(image(7, 4, 4, layout="contiguous"), relu=True))
