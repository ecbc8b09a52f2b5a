"""quantized::conv2d_add and conv2d_add_relu: a convolution and an addition after it, in one op.

torch has them for the engine "onednn" only, so the reference is verified on that engine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pytest
import torch
from _reference import Geometry, assert_agree, assert_quantum, centered, requantize
from _strategies import LAYOUTS, ConvCase, Values, convs, output_image, with_layout
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from quant._engine import INTREE, assert_ran, counted, engine, missing, off, ours, running
from quant._layers import Q, pack_conv, real_of
from quant._torch_faults import onednn_convolves_wrongly

relu_forms = pytest.mark.parametrize("relu", [False, True], ids=["plain", "relu"])


@dataclass(frozen=True)
class AddCase:
    """A convolution, and the tensor that is added to its result."""

    conv: ConvCase
    accum_layout: str
    accum_zero_point: int

    def accum(self) -> Tensor:
        """A new tensor at every call, because torch's own op overwrites it."""
        values = self.conv.values
        shape = (self.conv.batch, self.conv.channels_out, *output_image(self.conv))
        generator = values.generator(13)

        def fresh(size: tuple[int, ...]) -> Tensor:
            integers = torch.randint(0, 256, size, generator=generator).to(torch.uint8)
            return torch._make_per_tensor_quantized_tensor(
                integers, values.scale(14, 0.02, 0.3), self.accum_zero_point
            )

        return with_layout(fresh, shape, self.accum_layout)

    def real(self, relu: bool) -> Tensor:
        accum = self.accum()
        real = real_of(self.conv) + centered(accum) * accum.q_scale()
        return real.clamp(min=0) if relu else real


@st.composite
def adds(draw: st.DrawFn) -> AddCase:
    conv = draw(convs(2))
    # torch rejects weights with zero points for these ops.
    conv = replace(conv, values=replace(conv.values, symmetric=True))
    return AddCase(conv, draw(st.sampled_from(LAYOUTS)), draw(st.integers(0, 255)))


def _run(case: AddCase, relu: bool, scale: float, accum: Tensor | None = None) -> Tensor:
    op = Q.conv2d_add_relu if relu else Q.conv2d_add
    accum = case.accum() if accum is None else accum
    return op(case.conv.x, accum, pack_conv(case.conv), scale, case.conv.values.y_zero_point)


@relu_forms
@given(case=adds())
def test_torchs_onednn_engine_matches_the_reference(relu: bool, case: AddCase) -> None:
    if onednn_convolves_wrongly():
        pytest.skip("torch.cpu._is_vnni_supported(): torch's oneDNN is wrong")
    real = case.real(relu)
    scale = case.conv.values.output_scale(real)
    with engine("onednn"), off():
        actual = _run(case, relu, scale, case.accum().contiguous())
    assert_quantum(actual, requantize(real, scale, case.conv.values.y_zero_point))


@ours
@relu_forms
@given(case=adds())
def test_matches_the_reference_and_torch(backend: str, relu: bool, case: AddCase) -> None:
    real = case.real(relu)
    scale = case.conv.values.output_scale(real)
    with running(backend), counted() as counts:
        actual = _run(case, relu, scale)
    assert_quantum(actual, requantize(real, scale, case.conv.values.y_zero_point))
    assert actual.is_contiguous(memory_format=torch.channels_last)
    if case.conv.batch:
        assert_ran(counts, "conv2d_add", backend)
    if onednn_convolves_wrongly():
        return
    with engine("onednn"), off():
        assert_agree(actual, _run(case, relu, scale, case.accum().contiguous()))


def _residual(layout: str = "channels_last", **values) -> AddCase:
    geometry = Geometry((1, 1), (1, 1), (1, 1))
    drawn = Values(seed=8, x_zero_point=9, y_zero_point=30, **values)
    conv = ConvCase(2, 16, 16, (3, 3), (7, 6), geometry, "channels_last", drawn)
    return AddCase(conv, layout, 77)


@ours
@relu_forms
@pytest.mark.parametrize("layout", LAYOUTS)
def test_accum_is_not_changed_nor_returned(backend: str, relu: bool, layout: str) -> None:
    case = _residual(layout)
    accum = case.accum()
    before, scale, zero_point = accum.int_repr().clone(), accum.q_scale(), accum.q_zero_point()
    with running(backend):
        actual = _run(case, relu, 0.4, accum)
    assert torch.equal(accum.int_repr(), before)
    assert (accum.q_scale(), accum.q_zero_point()) == (scale, zero_point)
    assert actual.data_ptr() != accum.data_ptr()


@ours
def test_accum_may_be_the_input_itself(backend: str) -> None:
    case = _residual()
    x = case.conv.x
    real = real_of(case.conv) + centered(x) * x.q_scale()
    with running(backend):
        actual = Q.conv2d_add(x, x, pack_conv(case.conv), 0.4, 100)
    assert_quantum(actual, requantize(real, 0.4, 100))


@ours
def test_one_packed_object_serves_plain_and_added_calls(backend: str) -> None:
    case = _residual(per_channel=True)
    with running(backend):
        packed = pack_conv(case.conv)
        for _ in range(2):
            plain = Q.conv2d(case.conv.x, packed, 0.4, 100)
            assert_quantum(plain, requantize(real_of(case.conv), 0.4, 100))
            added = Q.conv2d_add(case.conv.x, case.accum(), packed, 0.4, 100)
            assert_quantum(added, requantize(case.real(False), 0.4, 100))


@ours
def test_weights_with_zero_points_are_right_or_refused(backend: str) -> None:
    case = _residual(symmetric=False)
    with running(backend):
        try:
            actual = _run(case, False, 0.4)
        except RuntimeError as error:
            if re.search("zero point|Didn't find engine", str(error)):
                return
            raise
    assert_quantum(actual, requantize(case.real(False), 0.4, 30))


@pytest.mark.skipif(not missing(), reason="needs torch without cpuaccel (CPUACCEL=0)")
def test_torchs_x86_engine_refuses() -> None:
    with running(INTREE), pytest.raises(RuntimeError, match="Didn't find engine"):
        _run(_residual(), False, 0.4)
