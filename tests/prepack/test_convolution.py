"""The results of packed convolutions, and of the op that they call."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from quant._engine import needs_plugin
from torch import Tensor, nn

import cpuaccel
from cpuaccel import _native
from prepack._models import assert_same, fallbacks, is_packed, packed, values

pytestmark = needs_plugin

_op: Any = torch.ops.cpuaccel


@pytest.fixture(autouse=True)
def _anywhere() -> Iterator[None]:
    """Uses cpuaccel's kernels also on CPUs where torch's are preferred."""
    _native.load().set_cpuaccel_convolutions_only(True)
    yield
    _native.load().set_cpuaccel_convolutions_only(False)


def _assert_close(actual: Tensor, expected: Tensor) -> None:
    assert actual.shape == expected.shape
    assert actual.stride() == expected.stride()
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


def _check(layer: nn.Module, input: Tensor) -> None:
    ours = packed(layer)
    assert is_packed(ours)
    with torch.no_grad():
        with cpuaccel.enabled(False):
            expected = layer(input)
        _assert_close(ours(input), expected)
    assert is_packed(ours)
    assert_same(ours.state_dict(), layer.state_dict())
    assert_same(values(cpuaccel.unpack(ours)), layer.state_dict())


_MODES = ("zeros", "reflect", "replicate", "circular")


@given(
    dims=st.sampled_from([1, 2]),
    channels=st.sampled_from([1, 3, 40]),
    groups=st.sampled_from([1, 2]),
    rows=st.sampled_from([32, 96, 159]),
    kernel=st.integers(1, 4),
    stride=st.integers(1, 3),
    padding=st.sampled_from([0, 1, 2, "valid", "same"]),
    dilation=st.integers(1, 2),
    size=st.integers(8, 20),
    batch=st.sampled_from([None, 1, 3]),
    mode=st.sampled_from(_MODES),
    bias=st.booleans(),
    last=st.booleans(),
)
def test_it_is_the_convolution(
    dims: int,
    channels: int,
    groups: int,
    rows: int,
    kernel: int,
    stride: int,
    padding: int | str,
    dilation: int,
    size: int,
    batch: int | None,
    mode: str,
    bias: bool,
    last: bool,
) -> None:
    if padding == "same":
        stride = 1
    if groups == 2 and channels == 1:
        channels = 2  # otherwise it is depthwise
    layer = (nn.Conv1d if dims == 1 else nn.Conv2d)(
        channels * groups,
        rows * groups,
        kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        padding_mode=mode,
        bias=bias,
    )
    image = (channels * groups, *(size + i for i in range(dims)))
    input = torch.randn(image if batch is None else (batch, *image))
    if last and dims == 2 and batch is not None:
        layer = layer.to(memory_format=torch.channels_last)
        input = input.contiguous(memory_format=torch.channels_last)
    _check(layer.eval(), input)


@pytest.mark.parametrize("weight_last", [False, True])
def test_one_of_both_with_the_channels_last(weight_last: bool) -> None:
    layer, input = nn.Conv2d(16, 32, 3), torch.randn(2, 16, 9, 9)
    if weight_last:
        layer = layer.to(memory_format=torch.channels_last)
    else:
        input = input.contiguous(memory_format=torch.channels_last)
    _check(layer.eval(), input)


def test_gradients_of_the_input_and_the_bias() -> None:
    layer = nn.Conv2d(12, 32, 3, stride=2, padding=1, groups=1).eval()
    layer.weight.requires_grad_(False)
    ours = packed(layer)
    results = []
    for model in (layer, ours):
        input = torch.linspace(-1, 1, 2 * 12 * 81).view(2, 12, 9, 9).requires_grad_()
        model(input).square().sum().backward()
        results.append((input.grad, model.bias.grad))
    assert is_packed(ours)
    for ours_is, plain_is in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(ours_is, plain_is, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    "input",
    [
        torch.randn(2, 15, 9, 9),
        torch.randn(2, 16, 9),
        torch.randn(2, 16, 1, 1),
        torch.randn(2, 16, 9, 9).double(),
        torch.randn(2, 2, 16, 9, 9),
    ],
    ids=lambda x: f"{list(x.shape)} {x.dtype}",
)
def test_errors_are_torch_s(input: Tensor) -> None:
    layer = nn.Conv2d(16, 32, 3).eval()
    with pytest.raises(Exception) as expected:  # noqa: PT011
        layer(input)
    with pytest.raises(type(expected.value)) as found:
        packed(layer)(input)
    assert str(found.value) == str(expected.value)


def test_an_empty_batch_is_torch_s() -> None:
    layer = nn.Conv2d(16, 32, 3).eval()
    assert packed(layer)(torch.randn(0, 16, 9, 9)).shape == (0, 32, 7, 7)


def test_under_autocast_it_is_plain_again() -> None:
    layer, input = nn.Conv2d(16, 32, 3).eval(), torch.randn(1, 16, 9, 9)
    ours = packed(layer)
    cpuaccel.reset_stats()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(ours(input), layer(input))
    assert not is_packed(ours)
    assert list(fallbacks()) == ["autocast casts the plain weight of a convolution"]


def test_off_goes_on_with_torch_s_kernels() -> None:
    layer, input = nn.Conv2d(16, 32, 3).eval(), torch.randn(1, 16, 9, 9)
    ours = packed(layer)
    with torch.no_grad(), cpuaccel.enabled(False):
        assert torch.equal(ours(input), layer(input))
    assert is_packed(ours)


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        (nn.Conv2d(32, 32, 3, groups=32), "depthwise"),
        (nn.Conv2d(32, 8, 3), "1.1 times the memory"),
        (nn.Conv2d(32, 32, 3).double(), "float64"),
        (nn.Conv2d(32, 32, 3).bfloat16(), "bfloat16"),
        (nn.ConvTranspose2d(32, 32, 3), "no packed form"),
    ],
    ids=["depthwise", "few channels", "double", "bfloat16", "transposed"],
)
def test_layers_that_are_not_packed(layer: nn.Module, why: str) -> None:
    cpuaccel.reset_stats()
    assert not is_packed(cpuaccel.prepack(layer))
    assert [why in reason for reason in fallbacks()] == [True]


def test_a_cpu_of_torch_s_convolutions() -> None:
    native = _native.load()
    native.set_cpuaccel_convolutions_only(False)
    layer = nn.Conv2d(32, 32, 3)
    why = native.packed_convolution_fallback_reason()
    assert is_packed(cpuaccel.prepack(layer)) == (why == "")


def test_a_network() -> None:
    net = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2),
        nn.Flatten(),
        nn.Linear(64 * 49, 32),
    ).eval()
    ours, input = packed(net), torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        torch.testing.assert_close(ours(input), net(input), rtol=1e-4, atol=1e-4)
        again = copy.deepcopy(ours)
        assert torch.equal(again(input), ours(input))
    rows = [row for row in cpuaccel.explain(ours).rows if row.layer in ("0", "3", "5")]
    assert [row.problem for row in rows] == ["f32 32x3x3x3", "f32 64x32x3x3", "f32 32x3136"]


def _arguments(learns: bool) -> tuple[Any, ...]:
    weight = torch.randn(33, 6, 3, 2)
    panel = _native.load().gemm_panel()
    parts = [_op.pack_linear(weight.flatten(1), panel)]
    input = torch.randn(2, 6, 8, 7, requires_grad=learns)
    bias = torch.randn(33, requires_grad=learns)
    return input, parts, panel, list(weight.shape), bias, [1, 2], [1, 0], [2, 1], 1


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("last", [False, True])
def test_opcheck(learns: bool, last: bool) -> None:
    torch.library.opcheck(_op.packed_convolution.default, (*_arguments(learns), last))


@pytest.mark.parametrize(
    ("index", "value", "message"),
    [
        (1, [], "groups"),
        (1, [torch.zeros(5)], "packed"),
        (1, [torch.zeros(36 * 64, dtype=torch.int64)], "packed"),
        (2, 7, "panel"),
        (3, [34], "weight"),
        (3, [330, 6, 3, 2], "packed"),
        (8, 2, "groups"),
    ],
)
def test_bad_arguments(index: int, value: Any, message: str) -> None:
    arguments = list(_arguments(False))
    arguments[index] = value
    with pytest.raises(RuntimeError, match=message):
        _op.packed_convolution(*arguments)
