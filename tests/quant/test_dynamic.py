"""Dynamic linear, convolutions, LSTM, GRU and the cells: float in, float out, int8 inside."""

from __future__ import annotations

import copy

import pytest
import torch
from _reference import assert_integers, assert_within, conv_dynamic, linear_dynamic
from _strategies import ConvCase, LinearCase, Values, convs, linears
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.ao.quantization import quantize_dynamic
from torch.testing import assert_close

from quant._engine import INTREE, assert_ran, backends, counted, ours, running
from quant._layers import Q, conv_op, pack_conv, pack_linear
from quant._torch_faults import fbgemm_convolves_wrongly, running_conv, torch_was_wrong

relu_forms = pytest.mark.parametrize("relu", [False, True], ids=["plain", "relu"])
dims = pytest.mark.parametrize("dims", [1, 2, 3], ids=["1d", "2d", "3d"])


def _run_linear(case: LinearCase, x: Tensor, relu: bool) -> Tensor:
    op = Q.linear_relu_dynamic if relu else Q.linear_dynamic
    return op(x, pack_linear(case), not case.values.wide)


def check_linear(backend: str, case: LinearCase, x: Tensor, relu: bool) -> None:
    """Checks the case on `backend` against the reference, and against torch's own kernels."""
    expected, allowed = linear_dynamic(
        x, case.weight, case.bias, reduce_range=not case.values.wide, relu=relu
    )
    with running(backend), counted() as counts:
        actual = _run_linear(case, x, relu)
    assert_within(actual, expected, allowed)
    if x.numel():
        assert_ran(counts, "linear_dynamic", backend)
    if backend != INTREE:
        with running(INTREE):
            assert_within(actual, _run_linear(case, x, relu).to(torch.float64), 2 * allowed)


@backends
@relu_forms
@given(case=linears())
def test_linear_matches_the_reference_and_torch(backend: str, relu: bool, case: LinearCase) -> None:
    check_linear(backend, case, case.x_float, relu)


@backends
@pytest.mark.parametrize("rows", [1, 40])
def test_ties_of_the_input_fall_as_in_torch(backend: str, rows: int) -> None:
    """The scale is 1 and the zero point 3: results are the rounded inputs."""
    x = torch.tensor([[-3.0, 124.0, 0.5, 1.5, 2.5, -0.5, -1.5, 3.5]]).expand(rows, 8)
    weight = torch.quantize_per_tensor(torch.eye(8), 1.0, 0, torch.qint8)

    def result() -> Tensor:
        return Q.linear_dynamic(x, Q.linear_prepack(weight, None), True)

    with running(backend):
        actual = result()
    with running(INTREE):
        assert torch.equal(actual, result())


_INPUTS = {
    "zeros": torch.zeros(3, 16),
    "positive": torch.linspace(0.5, 4.0, 48).reshape(3, 16),
    "negative": -torch.linspace(0.5, 4.0, 48).reshape(3, 16),
    "tiny": torch.linspace(-3e-6, 5e-6, 48).reshape(3, 16),
    "huge": torch.linspace(-3e30, 5e30, 48).reshape(3, 16),
    "one outlier": torch.cat([torch.linspace(-1, 1, 47), torch.tensor([1e4])]).reshape(3, 16),
}


@backends
@pytest.mark.parametrize("name", _INPUTS)
def test_linear_on_awkward_ranges(backend: str, name: str) -> None:
    case = LinearCase((3,), 16, 8, "contiguous", Values(seed=1, bias=False))
    check_linear(backend, case, _INPUTS[name], relu=False)


@pytest.mark.parametrize("reduce_range", [False, True])
@given(low=st.floats(width=32, allow_nan=False), high=st.floats(width=32, allow_nan=False))
def test_the_quantizer_is_torchs(reduce_range: bool, low: float, high: float) -> None:
    """A layer of one weight, 127, shows the steps of its source: each is the scale times 127."""
    x = torch.tensor([[low], [high]])
    scale, zero_point = torch._choose_qparams_per_tensor(x, reduce_range)
    assume(1e-5 < scale < 1e30)
    packed = Q.linear_prepack(
        torch.quantize_per_tensor(torch.tensor([[127.0]]), 1.0, 0, torch.qint8)
    )
    steps = Q.linear_dynamic(x, packed, reduce_range).to(torch.float64) / (127 * scale)
    assert_close(steps, steps.round(), rtol=0, atol=1e-3)
    expected = (x.to(torch.float64) / scale + zero_point).clamp(0, 255) - zero_point
    assert float((steps - expected).abs().max()) <= 0.501


@backends
def test_nan_raises_torchs_error(backend: str) -> None:
    weight = torch.quantize_per_tensor(torch.tensor([[127.0]]), 1.0, 0, torch.qint8)
    error = "min should be less than or equal to max"
    with running(backend), pytest.raises(RuntimeError, match=error):
        Q.linear_dynamic(torch.full((2, 1), float("nan")), Q.linear_prepack(weight), True)


def _run_conv(case: ConvCase, x: Tensor) -> Tensor:
    return conv_op(case, "_dynamic")(x, pack_conv(case), not case.values.wide)


def _for_torch(case: ConvCase) -> Tensor:
    """A dense copy of the input: torch searches the memory behind a strided view for its range."""
    gaps = case.layout in ("sliced", "expanded")
    return case.x_float.contiguous() if gaps else case.x_float


@backends
@dims
@pytest.mark.parametrize("transposed", [False, True], ids=["plain", "transposed"])
@given(data=st.data())
def test_conv_matches_the_reference_and_torch(
    backend: str, dims: int, transposed: bool, data: st.DataObject
) -> None:
    check_conv(backend, data.draw(convs(dims, transposed=transposed)))


def check_conv(backend: str, case: ConvCase) -> None:
    """Checks the case on `backend` against the reference, and its strides against torch's."""
    comparable = not fbgemm_convolves_wrongly(case)
    if backend == INTREE and not comparable:
        return
    expected = conv_dynamic(
        case.x_float,
        case.weight,
        case.bias,
        case.geometry,
        reduce_range=not case.values.wide,
    )
    with running_conv(backend, case), counted() as counts:
        actual = _run_conv(case, case.x_float)
    if not counts.ours():
        with running_conv(backend, case):
            actual = _run_conv(case, _for_torch(case))
    assert actual.dtype == torch.float32
    if case.batch:
        assert_ran(counts, "conv_dynamic", backend)
    if torch_was_wrong(backend, counts):
        return
    steps = actual.to(torch.float64) / expected.scale + expected.zero_point
    # The result lies on the grid of the input's quantizer, because torch quantizes it with that.
    assert_close(steps, steps.round(), rtol=0, atol=1e-3)
    assert_integers(steps.round(), expected)
    if backend != INTREE and comparable:
        with running_conv(INTREE, case):
            assert actual.stride() == _run_conv(case, _for_torch(case)).stride()


class _Recurrent(nn.Module):
    def __init__(self, kind: str, layers: int, bidirectional: bool) -> None:
        super().__init__()
        self.rnn = getattr(nn, kind)(12, 10, num_layers=layers, bidirectional=bidirectional)

    def forward(self, x: Tensor, state=None):
        return self.rnn(x, state)


@ours
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize(("layers", "bidirectional"), [(1, False), (2, True)])
def test_recurrent_layers_match_torch(
    backend: str, kind: str, layers: int, bidirectional: bool
) -> None:
    model = _Recurrent(kind, layers, bidirectional).eval()
    x = torch.randn(7, 3, 12)
    with running(INTREE):
        expected, _ = _dynamic(model)(x)
    with running(backend), counted() as counts:
        quantized = _dynamic(model)
        actual, state = quantized(x)
        quantized(x[:2], state)
    assert_ran(counts, "linear_dynamic", backend)
    assert counts.ours("linear_dynamic") > 0
    assert counts.intree() == 0
    _assert_recurrent(actual, expected)


@ours
@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cells_match_torch(backend: str, kind: str) -> None:
    model = nn.Sequential(getattr(nn, kind)(12, 10)).eval()
    x = torch.randn(3, 12)
    with running(INTREE):
        expected = _dynamic(model)(x)
    with running(backend), counted() as counts:
        actual = _dynamic(model)(x)
    assert counts.ours("linear_dynamic") == 2
    assert counts.intree() == 0
    for a, e in zip(_tensors(actual), _tensors(expected), strict=True):
        _assert_recurrent(a, e)


def _dynamic(model: nn.Module) -> nn.Module:
    kinds = {nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.GRUCell, nn.RNNCell}
    return quantize_dynamic(copy.deepcopy(model), kinds, dtype=torch.qint8)


def _tensors(result: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


def _assert_recurrent(actual: Tensor, expected: Tensor) -> None:
    """Equal in float32, except for steps whose hidden state was quantized to the next integer."""
    assert actual.shape == expected.shape
    error = (actual - expected).abs()
    assert float(error.max()) < 0.02
    assert float((error < 1e-4).float().mean()) > 0.9
