"""Layers of the engine "onednn" on cpuaccel's kernels, against torch's: within one quantum."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from quant._engine import engine
from torch import Tensor

import cpuaccel
from aarch64._int8 import (
    DTYPES,
    Q,
    activation,
    assert_quantum,
    bias,
    both,
    counted,
    output_quantizer,
    weight,
)

per_channel = pytest.mark.parametrize("per_channel", [False, True], ids=["tensor", "channel"])
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


@pytest.fixture(autouse=True)
def _onednn() -> Iterator[None]:
    with engine("onednn"):
        yield


def _quint8(x: Tensor) -> Tensor:
    """The same numbers as quint8, because torch's convolutions do not accept qint8."""
    integers = (x.int_repr().int() + 128).to(torch.uint8)
    return torch._make_per_tensor_quantized_tensor(integers, x.q_scale(), x.q_zero_point() + 128)


def _linear(op, x: Tensor, weight: Tensor, bias: Tensor | None, *arguments) -> Tensor:
    return op(x, Q.linear_prepack(weight, bias), *arguments)


@dtypes
@per_channel
@pytest.mark.parametrize("op", [Q.linear, Q.linear_relu], ids=["plain", "relu"])
def test_linear(op, per_channel: bool, dtype: torch.dtype) -> None:
    quantizer = output_quantizer(dtype)
    sizes = itertools.product((1, 4, 19), (16, 131), (8, 35))
    for with_bias, (M, K, N) in zip(itertools.cycle((True, False)), sizes):
        x, w = activation(M, K, dtype=dtype), weight(N, K, per_channel=per_channel)
        b = bias(N) if with_bias else None
        found, expected = both("linear.cpuaccel", _linear, op, x, w, b, *quantizer)
        assert_quantum(found, expected)


@dtypes
@pytest.mark.parametrize("shape", [(16,), (2, 3, 16), (2, 0, 16)], ids=str)
def test_linear_of_other_dimensions(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, w = activation(*shape, dtype=dtype), weight(8, 16, per_channel=True)
    found = Q.linear(x, Q.linear_prepack(w, None), *output_quantizer(dtype))
    real = F.linear(x.dequantize(), w.dequantize())
    assert found.dtype == dtype
    torch.testing.assert_close(found.dequantize(), real, atol=0.46, rtol=0)


@per_channel
@pytest.mark.parametrize("name", ["linear_dynamic", "linear_relu_dynamic"])
@pytest.mark.parametrize("reduce_range", [False, True], ids=["u8", "u7"])
def test_linear_dynamic(name: str, per_channel: bool, reduce_range: bool) -> None:
    op = getattr(Q, name)
    for M, K, N in itertools.product((1, 7, 33), (64, 131), (35,)):
        x, w = torch.randn(M, K) + 0.3, weight(N, K, per_channel=per_channel)
        found, expected = both("linear_dynamic.cpuaccel", _linear, op, x, w, bias(N), reduce_range)
        # ACL rounds src differently: each of its integers may be off by one.
        step = float(x.max() - x.min()) / (127 if reduce_range else 255)
        bound = 1.5 * step * float(w.dequantize().norm(dim=1).max())
        torch.testing.assert_close(found, expected, atol=bound, rtol=0)
        real = F.linear(x, w.dequantize(), bias(N))
        real = real.relu() if "relu" in name else real
        torch.testing.assert_close(found, real, atol=bound, rtol=0)


@pytest.mark.parametrize("name", ["linear_leaky_relu", "linear_tanh"])
@dtypes
def test_functions_behind_linear(name: str, dtype: torch.dtype) -> None:
    x, w = activation(5, 32, dtype=dtype), weight(8, 32, per_channel=True)
    arguments = (0.1,) if name == "linear_leaky_relu" else ()
    quantizer = output_quantizer(dtype, 0.008 if name == "linear_tanh" else 0.9)
    op = getattr(Q, name)
    found, expected = both(f"{name}.cpuaccel", _linear, op, x, w, bias(8), *quantizer, *arguments)
    assert_quantum(found, expected)
    packed = Q.linear_prepack(w, bias(8))
    assert torch.equal(op(x, packed, *quantizer, *arguments).int_repr(), found.int_repr())
    with cpuaccel.enabled(False):  # torch's op on an object of cpuaccel
        assert_quantum(op(x, packed, *quantizer, *arguments), expected)


CONVS = {
    "1d": ((2, 8, 20), (16, 8, 3), [2], [1], [1], 1),
    "pointwise": ((2, 24, 7, 5), (40, 24, 1, 1), [1, 1], [0, 0], [1, 1], 1),
    "3x3": ((2, 8, 9, 7), (16, 8, 3, 3), [1, 1], [1, 1], [1, 1], 1),
    "3x3 strided": ((1, 16, 9, 9), (24, 16, 3, 3), [2, 2], [1, 1], [1, 1], 1),
    "stem": ((1, 3, 20, 20), (32, 3, 7, 7), [2, 2], [3, 3], [1, 1], 1),
    "dilated": ((1, 8, 9, 9), (8, 8, 3, 3), [1, 1], [2, 2], [2, 2], 1),
    "grouped": ((1, 16, 8, 8), (32, 4, 3, 3), [1, 1], [1, 1], [1, 1], 4),
    "depthwise 3x3": ((2, 19, 9, 9), (19, 1, 3, 3), [1, 1], [1, 1], [1, 1], 19),
    "depthwise 3x3 strided": ((1, 32, 9, 9), (32, 1, 3, 3), [2, 2], [1, 1], [1, 1], 32),
    "depthwise 5x5": ((1, 32, 11, 9), (32, 1, 5, 5), [1, 1], [2, 2], [1, 1], 32),
    "depthwise 5x5 strided": ((1, 16, 11, 9), (16, 1, 5, 5), [2, 2], [2, 2], [1, 1], 16),
}


def _convolve(name: str, relu: bool, per_channel: bool, x: Tensor, *quantizer) -> Tensor:
    _, shape, *geometry = CONVS[name]
    dims = len(shape) - 2
    packed = getattr(Q, f"conv{dims}d_prepack")(
        weight(*shape, per_channel=per_channel), bias(shape[0]) if relu else None, *geometry
    )
    return getattr(Q, f"conv{dims}d_relu" if relu else f"conv{dims}d")(x, packed, *quantizer)


@dtypes
@pytest.mark.parametrize("relu", [False, True], ids=["plain", "relu"])
@pytest.mark.parametrize("name", CONVS)
def test_convolution(name: str, relu: bool, dtype: torch.dtype) -> None:
    x = activation(*CONVS[name][0], dtype=dtype)
    quantizer = output_quantizer(dtype, 1.7)
    for per_channel in (False, True):
        with counted("conv2d.cpuaccel"):
            found = _convolve(name, relu, per_channel, x, *quantizer)
        with cpuaccel.enabled(False):
            if dtype == torch.quint8:
                assert_quantum(found, _convolve(name, relu, per_channel, x, *quantizer))
            else:
                scale, zero_point = quantizer
                theirs = _convolve(name, relu, per_channel, _quint8(x), scale, zero_point + 128)
                apart = found.int_repr().int() - (theirs.int_repr().int() - 128)
                assert int(apart.abs().max()) <= 1


def test_an_input_of_any_strides() -> None:
    x = activation(1, 8, 9, 7).contiguous(memory_format=torch.channels_last)
    assert_quantum(
        _convolve("3x3", False, True, x[:, :, 1:, ::2], 1.7, 100),
        _convolve("3x3", False, True, x[:, :, 1:, ::2].contiguous(), 1.7, 100),
    )


def test_convolution_dynamic() -> None:
    x, w = torch.randn(1, 8, 6, 6), weight(16, 8, 3, 3, per_channel=True)

    def run() -> Tensor:
        return Q.conv2d_dynamic(x, Q.conv2d_prepack(w, None, [1, 1], [1, 1], [1, 1], 1))

    found, expected = both("conv_dynamic.cpuaccel", run)
    step = float(x.max() - x.min()) / 255
    torch.testing.assert_close(found, expected, atol=1.01 * step, rtol=0)


@dtypes
@pytest.mark.parametrize("relu", [False, True], ids=["plain", "relu"])
def test_convolution_and_a_sum(relu: bool, dtype: torch.dtype) -> None:
    x, accum = activation(2, 8, 6, 5, dtype=dtype), activation(2, 16, 6, 5, dtype=dtype, seed=5)
    w = weight(16, 8, 3, 3, per_channel=True)
    op = Q.conv2d_add_relu if relu else Q.conv2d_add
    quantizer = output_quantizer(dtype, 1.7)
    packed = Q.conv2d_prepack(w, bias(16), [1, 1], [1, 1], [1, 1], 1)
    with counted("conv2d_add.cpuaccel"):
        found = op(x, accum, packed, *quantizer)
    assert any("float behind" in reason for reason in cpuaccel.stats()["fallbacks"])
    real = F.conv2d(x.dequantize(), w.dequantize(), bias(16), padding=1) + accum.dequantize()
    real = real.relu() if relu else real
    expected = torch.quantize_per_tensor(real, *quantizer, dtype)
    assert int((found.int_repr().int() - expected.int_repr().int()).abs().max()) <= 1
    if dtype == torch.quint8:
        with cpuaccel.enabled(False):  # torch's op on an object of cpuaccel
            theirs = op(x, accum.contiguous(memory_format=torch.channels_last), packed, *quantizer)
        assert_quantum(found, theirs)


@dtypes
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_transposed_convolutions_are_right_in_float(dims: int, dtype: torch.dtype) -> None:
    """torch's oneDNN is wrong for these here, so it cannot be the reference."""
    stride, zeros, ones = [2] * dims, [0] * dims, [1] * dims
    x = activation(1, 8, *[5] * dims, dtype=dtype)
    w, quantizer = weight(8, 16, *[3] * dims, per_channel=False), output_quantizer(dtype, 1.7)
    packed = getattr(Q, f"conv_transpose{dims}d_prepack")(w, bias(16), stride, ones, zeros, ones, 1)
    cpuaccel.reset_stats()
    found = getattr(Q, f"conv_transpose{dims}d")(x, packed, *quantizer)
    (reason,) = cpuaccel.stats()["fallbacks"]
    assert reason.startswith(f"conv_transpose{max(2, dims)}d: a transposed convolution")
    real = getattr(F, f"conv_transpose{dims}d")(
        x.dequantize(), w.dequantize(), bias(16), stride=stride, padding=ones
    )
    expected = torch.quantize_per_tensor(real, *quantizer, dtype)
    assert int((found.int_repr().int() - expected.int_repr().int()).abs().max()) <= 1


def test_a_pointwise_convolution_of_three_dimensions_is_a_product() -> None:
    x, w = activation(1, 8, 3, 4, 5), weight(12, 8, 1, 1, 1, per_channel=True)
    ones, zeros = [1] * 3, [0] * 3

    def run() -> Tensor:
        return Q.conv3d(x, Q.conv3d_prepack(w, bias(12), ones, zeros, ones, 1), 1.7, 100)

    assert_quantum(*both("conv3d.cpuaccel", run))


def test_three_dimensions_stay_torchs() -> None:
    x, w = activation(1, 4, 5, 5, 5), weight(8, 4, 3, 3, 3, per_channel=True)

    def run() -> Tensor:
        return Q.conv3d(x, Q.conv3d_prepack(w, bias(8), *[[1] * 3] * 3, 1), 1.7, 100)

    with cpuaccel.enabled(False):
        expected = run()
    cpuaccel.reset_stats()
    assert torch.equal(run().int_repr(), expected.int_repr())
    assert "conv3d.cpuaccel" not in cpuaccel.stats()["calls"]
    assert list(cpuaccel.stats()["fallbacks"].values()) == [1]


@dtypes
def test_weights_with_zero_points_that_torch_rejects(dtype: torch.dtype) -> None:
    x = activation(3, 16, dtype=dtype)
    quantizer = output_quantizer(dtype)
    for zero_point in (3, -100):  # with -100 src minus zero point exceeds int8: computed in float
        w = weight(8, 16, per_channel=True, zero_point=zero_point)
        with cpuaccel.enabled(False), pytest.raises(RuntimeError, match="symmetric"):
            Q.linear_prepack(w, None)
        packed = Q.linear_prepack(w, bias(8))
        assert torch.equal(packed.unpack()[0].int_repr(), w.int_repr())
        real = F.linear(x.dequantize(), w.dequantize(), bias(8))
        expected = torch.quantize_per_tensor(real, *quantizer, dtype)
        found = Q.linear(x, packed, *quantizer)
        assert int((found.int_repr().int() - expected.int_repr().int()).abs().max()) <= 1
        with cpuaccel.enabled(False), pytest.raises(RuntimeError, match="symmetric"):
            Q.linear(x, packed, *quantizer)


def test_off_gives_torchs_numbers_to_our_objects() -> None:
    x, y = activation(3, 16), activation(1, 8, 6, 6)
    linear = Q.linear_prepack(weight(8, 16, per_channel=True), bias(8))
    conv = Q.conv2d_prepack(weight(8, 8, 3, 3, per_channel=True), None, *[[1, 1]] * 3, 1)
    with cpuaccel.enabled(False):
        theirs = Q.linear_prepack(weight(8, 16, per_channel=True), bias(8))
        cpuaccel.reset_stats()
        assert torch.equal(
            Q.linear(x, linear, 0.9, 119).int_repr(), Q.linear(x, theirs, 0.9, 119).int_repr()
        )
        Q.conv2d(y, conv, 1.7, 100)
        assert not cpuaccel.stats()["calls"]


def _onednn_lines(capfd: pytest.CaptureFixture[str], run, *arguments) -> list[str]:
    capfd.readouterr()
    with torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON):
        run(*arguments)
    return [line for line in capfd.readouterr().out.splitlines() if "primitive,exec" in line]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_weights_are_packed_once(dynamic: bool, capfd: pytest.CaptureFixture[str]) -> None:
    """pytorch #185910, #198177: torch reorders weights in each call of another shape or type."""
    w = weight(96, 128, per_channel=True)
    x = torch.randn(5, 128) if dynamic else activation(5, 128)

    def run(packed, rows: int) -> None:
        if dynamic:
            Q.linear_dynamic(x[:rows], packed)
        else:
            Q.linear(x[:rows], packed, 0.9, 100)

    with cpuaccel.enabled(False):
        theirs = Q.linear_prepack(w, bias(96))
        run(theirs, 5)
        assert _onednn_lines(capfd, run, theirs, 3)
    cpuaccel.reset_stats()
    ours = Q.linear_prepack(w, bias(96))
    run(ours, 5)
    held = cpuaccel.stats()["memory"]["packed_weight_bytes"]
    for rows in (5, 3, 1):
        assert not _onednn_lines(capfd, run, ours, rows)
    stats = cpuaccel.stats()
    assert stats["prepacks"] == {"linear.cpuaccel": 1}
    assert stats["memory"]["packed_weight_bytes"] == held
    assert stats["calls"]["linear_dynamic.cpuaccel" if dynamic else "linear.cpuaccel"] == 4
    del ours
    assert cpuaccel.stats()["memory"]["packed_weight_bytes"] <= held - 96 * 128


def test_another_engine_keeps_torchs_objects() -> None:
    with engine("qnnpack"):
        cpuaccel.reset_stats()
        packed = Q.linear_prepack(weight(8, 16, per_channel=True), bias(8))
        Q.linear(activation(3, 16), packed, 0.9, 119)
    assert not cpuaccel.stats()["calls"]
