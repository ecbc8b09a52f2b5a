"""clone and contiguous of quantized tensors: the same bytes in torch's order, without rounding."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from quant._engine import counted, engine, needs_front_end
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
)

pytestmark = needs_front_end
FORMATS = (None, torch.preserve_format, torch.contiguous_format, torch.channels_last)


def _image(*shape: int, layout: str = "contiguous") -> Tensor:
    return image(*shape, layout=layout)


@isas
@given(x=images(LAYOUTS), memory_format=st.sampled_from(FORMATS))
def test_images(isa: str, x: Tensor, memory_format: torch.memory_format | None) -> None:
    outcome = both(lambda: torch.clone(x, memory_format=memory_format), isa)
    assert_same(outcome.ours, outcome.theirs)
    assert torch.equal(outcome.ours.int_repr(), x.int_repr())


@isas
@given(data=st.data())
def test_any_strides(isa: str, data: st.DataObject) -> None:
    dims = data.draw(st.integers(1, 6))
    shape = data.draw(st.lists(st.integers(1, 20), min_size=dims, max_size=dims))
    shape = [min(size, 200 // dims**2 + 1) for size in shape]
    x = _image(*shape).permute(data.draw(st.permutations(range(dims))))
    if data.draw(st.booleans()):
        x = x.narrow(0, x.size(0) // 2, x.size(0) - x.size(0) // 2)
    outcome = both(lambda: x.clone(memory_format=torch.contiguous_format), isa)
    assert_same(outcome.ours, outcome.theirs)


@isas
@pytest.mark.parametrize("channels", [4, 58, 116, 232])
@pytest.mark.parametrize("layout", ["channels_last", "contiguous"])
@pytest.mark.parametrize("batch", [1, 2])
def test_a_shuffle_of_channels(isa: str, channels: int, layout: str, batch: int) -> None:
    x = _image(batch, channels, 14, 13, layout=layout)
    halves = x.view(batch, 2, channels // 2, 14, 13).transpose(1, 2)
    outcome = both(halves.contiguous, isa)
    assert_same(outcome.ours, outcome.theirs)
    assert_on_cpuaccel(outcome.counts, "clone")


def test_a_copy_is_a_copy() -> None:
    x = _image(1, 8, 6, 6)
    with torch.no_grad():
        y = x.clone()
    assert y.data_ptr() != x.data_ptr()
    y.copy_(torch.quantize_per_tensor(torch.zeros(1, 8, 6, 6), 0.5, 3, torch.quint8))
    assert not torch.equal(y.int_repr(), x.int_repr())


def test_threads_agree() -> None:
    x = _image(3, 100, 51, 50)
    torch.set_num_threads(4)
    outcome = both(lambda: x.contiguous(memory_format=torch.channels_last))
    assert torch.equal(outcome.ours.int_repr(), x.int_repr())
    assert torch.equal(both(lambda: x.clone()).ours.int_repr(), x.int_repr())


@pytest.mark.parametrize("dtype", [torch.quint8, torch.qint8])
def test_both_bytes(dtype: torch.dtype) -> None:
    x = torch.quantize_per_tensor(torch.randn(2, 40, 8, 8), 0.1, 1, dtype)
    outcome = both(lambda: x.contiguous(memory_format=torch.channels_last))
    assert_same(outcome.ours, outcome.theirs)
    assert_on_cpuaccel(outcome.counts, "clone")


def test_three_spatial_dimensions() -> None:
    x = _image(2, 40, 3, 4, 5)
    outcome = both(lambda: x.contiguous(memory_format=torch.channels_last_3d))
    assert_same(outcome.ours, outcome.theirs)
    assert_on_cpuaccel(outcome.counts, "clone")


def test_no_elements() -> None:
    for shape in ((0,), (0, 3, 4, 4), (2, 0, 4, 4)):
        outcome = both(lambda shape=shape: _image(*shape).clone())
        assert_same(outcome.ours, outcome.theirs)


def test_a_single_element() -> None:
    x = torch.quantize_per_tensor(torch.tensor(1.5), 0.1, 1, torch.quint8)
    outcome = both(lambda: x.clone())
    assert_same(outcome.ours, outcome.theirs)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_quantizer_for_each_channel(axis: int) -> None:
    scales, zero_points = torch.rand(20) + 0.1, torch.arange(20)
    values = torch.randn(20, 20, 3, 3)
    x = torch.quantize_per_channel(values, scales, zero_points, axis, torch.qint8)
    outcome = both(lambda: x.contiguous(memory_format=torch.channels_last))
    assert_on_cpuaccel(outcome.counts, "clone")
    for ours, theirs in ((outcome.ours, outcome.theirs), (outcome.ours, x)):
        assert torch.equal(ours.dequantize(), theirs.dequantize())
        assert ours.qscheme() == theirs.qscheme()
        assert ours.q_per_channel_axis() == axis
    assert outcome.ours.stride() == outcome.theirs.stride()


def test_qint32_falls_back() -> None:
    x = torch.quantize_per_tensor(torch.randn(4, 3), 0.1, 0, torch.qint32)
    outcome = both(lambda: x.clone())
    assert torch.equal(outcome.ours.int_repr(), outcome.theirs.int_repr())
    assert_fallback(outcome.counts, "not quint8 or qint8")


@pytest.mark.parametrize(
    "x", [_image(4, 6)[:, ::2], _image(4, 6)[:, :3]], ids=["every second", "short rows"]
)
def test_other_strides_are_copied_by_torch(x: Tensor) -> None:
    outcome = both(lambda: x.clone())
    assert outcome.ours.stride() == outcome.theirs.stride()
    assert torch.equal(outcome.ours.int_repr(), outcome.theirs.int_repr())
    assert not outcome.counts.calls
    assert not outcome.counts.fallbacks


def test_torch_says_what_is_wrong() -> None:
    same_error(lambda: _image(4, 6).clone(memory_format=torch.channels_last))


@pytest.mark.parametrize("name", ["fbgemm", "onednn", "qnnpack"])
def test_other_engines_are_left_alone(name: str) -> None:
    x = _image(1, 8, 6, 6)
    with engine(name), counted() as counts:
        x.contiguous(memory_format=torch.channels_last)
    assert not counts.calls
    assert not counts.fallbacks
