"""Values of linear layers that torchao quantized: float64, torchao's own result, odd inputs."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

import cpuaccel
from torchao_int8 import _layers
from torchao_int8._layers import (
    GROUPS,
    KINDS,
    Kind,
    assert_right,
    by_cpuaccel,
    by_torchao,
    dtypes,
    kinds,
    layer,
)

_SHAPES = ((1, 300), (7, 300), (40, 300), (2, 3, 300), (300,), (1, 1, 1, 300))


@kinds
@dtypes
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_every_shape_is_right(kind: Kind, dtype: torch.dtype, bias: bool) -> None:
    linear = layer(kind, 300, 130, bias=bias, dtype=dtype)
    for shape in _SHAPES:
        if kind.rows == "given" and len(shape) != 2:
            continue  # torchao compares the dimensions of the scale with those of the input
        x = (torch.randn(shape) * 3).to(dtype)
        result = by_cpuaccel(linear, x, kind=kind)
        assert_right(kind, linear, x, result)


@kinds
@dtypes
def test_integers_are_those_of_torchao(kind: Kind, dtype: torch.dtype) -> None:
    """A weight of ones and zeros, one of each in a row, shows the integers."""
    linear = layer(kind, 64, 64, bias=False, dtype=dtype)
    with torch.no_grad():
        linear.weight.qdata.copy_(torch.eye(64, dtype=torch.int8))
        linear.weight.scale.fill_(1.0)
    for scale in (1e-30, 1e-9, 1e-3, 1.0, 300.0, 1e30):
        x = (torch.randn(200, 64) * scale).clamp(-6e4, 6e4).to(dtype)
        x[0], x[1], x[2, 5] = 0.0, x[1].abs(), 100 * x[2, 5]
        if not x.isfinite().all():
            continue
        assert_right(kind, linear, x, by_cpuaccel(linear, x, kind=kind))


@kinds
@pytest.mark.parametrize("K", [2, 3, 5, 15, 17, 63, 100, 129, 1000])
def test_every_depth_and_width(kind: Kind, K: int) -> None:
    for N in (1, 7, 16, 47, 49, 100):
        linear = layer(kind, K, N)
        for rows in (1, 2, 3, 9, 33):
            x = torch.randn(rows, K)
            assert_right(kind, linear, x, by_cpuaccel(linear, x, kind=kind))


@kinds
def test_inputs_of_any_strides(kind: Kind) -> None:
    linear = layer(kind, 24, 40)
    base = torch.randn(10, 48)
    for x in (base[:, ::2], base[::2, :24], base[:, :24].flip(0), torch.randn(24, 5).T):
        assert torch.equal(linear(x), linear(x.contiguous()))
    expanded = torch.randn(1, 24).expand(6, 24)
    assert torch.equal(linear(expanded), linear(expanded.contiguous()))
    if kind.rows != "given":
        x = torch.randn(2, 24, 3).transpose(1, 2)
        assert torch.equal(linear(x), linear(x.contiguous()))


@kinds
def test_empty_inputs(kind: Kind) -> None:
    linear = layer(kind, 24, 40)
    assert linear(torch.randn(0, 24)).shape == (0, 40)
    if kind.rows != "given":
        assert linear(torch.randn(3, 0, 24)).shape == (3, 0, 40)


@kinds
def test_rows_with_nan_or_infinity_give_nan(kind: Kind) -> None:
    linear = layer(kind, 24, 40)
    for bad in (float("nan"), float("inf"), -float("inf")):
        if kind.rows == "given" and bad == bad:
            continue  # infinities are clamped to the range of the given scale
        x = torch.randn(5, 24)
        x[2, 7] = bad
        result = linear(x)
        if kind.rows == "none":
            assert not result[2].isfinite().any()
        else:
            assert result[2].isnan().all()
        others = [0, 1, 3, 4]
        if kind.rows == "tensor":
            assert result.isnan().all()
        else:
            assert torch.equal(result[others], linear(x[others]))


def test_infinity_is_clamped_by_a_given_scale() -> None:
    linear = layer(KINDS["static"], 24, 40)
    x = torch.randn(5, 24)
    x[2, 7] = float("inf")
    largest = x.clone()
    largest[2, 7] = 1e6
    assert torch.equal(linear(x), linear(largest))


@kinds
def test_reduced_range(kind: Kind) -> None:
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig as Dynamic

    if kind.rows in ("none", "given"):
        pytest.skip("only for dynamic activations")
    kwargs = layer(kind, 8, 8).weight.act_quant_kwargs
    config = Dynamic(
        granularity=[kwargs.granularity, _layers.PerRow()],
        act_mapping_type=kwargs.mapping_type,
        reduce_range=True,
    )
    linear = Kind("reduced", lambda: config).quantized(nn.Sequential(nn.Linear(50, 40)))[0]
    assert linear.weight.act_quant_kwargs.reduce_range
    x = torch.randn(9, 50)
    assert_close(by_cpuaccel(linear, x, kind=kind), by_torchao(linear, x), rtol=1e-5, atol=1e-5)


def test_scales_and_zero_points_of_static_activations() -> None:
    kwargs_class = _layers.torchao_module().QuantizeTensorToInt8Kwargs
    linear = layer(KINDS["dynamic"], 24, 40)
    x = torch.randn(5, 24)
    weight = linear.weight.dequantize().double()
    for symmetric in (True, False):
        mapping = _layers.MappingType.SYMMETRIC if symmetric else _layers.MappingType.ASYMMETRIC
        for scale, zero_point in (
            (torch.tensor([[0.05]]), torch.tensor([[11]], dtype=torch.int8)),
            (torch.rand(5, 1) * 0.05 + 0.01, torch.randint(-9, 9, (5, 1), dtype=torch.int8)),
        ):
            linear.weight.act_quant_kwargs = kwargs_class(_layers.PerRow(), mapping)
            linear.weight.act_quant_scale = scale
            linear.weight.act_quant_zero_point = zero_point
            q = ((x * (1.0 / scale)).round() + zero_point).clamp(-128, 127)
            rows = (q.double() - zero_point) * scale.double()
            expected = rows @ weight.T + linear.bias.double()
            assert_close(linear(x).double(), expected, rtol=1e-5, atol=1e-5)


def test_pre_scale_of_smoothquant() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        for kind in KINDS.values():
            linear = layer(kind, 24, 40, dtype=dtype)
            x = torch.randn(5, 24).to(dtype)
            linear.weight.act_pre_scale = (torch.rand(24) + 0.5).to(dtype)
            rtol = 1e-5 if dtype == torch.float32 else 2e-2
            assert_close(linear(x), by_torchao(linear, x), rtol=rtol, atol=rtol)


def test_zero_points_of_the_weight() -> None:
    """torchao ignores them; the dequantized weight has them."""
    linear = layer(KINDS["dynamic"], 24, 40)
    linear.weight.zero_point.random_(-20, 20)
    x = torch.randn(5, 24)
    qdata, scale, _ = _layers.integers(KINDS["dynamic"], x)
    expected = (qdata * scale).double() @ linear.weight.dequantize().double().T
    cpuaccel.reset_stats()
    assert_close(linear(x).double(), expected + linear.bias.double(), rtol=1e-5, atol=1e-4)
    assert cpuaccel.stats()["fallbacks"] == {"int8_linear: the weight has zero points": 1}


def test_a_bias_given_by_name() -> None:
    """torchao's own function drops it."""
    linear = layer(KINDS["dynamic"], 24, 40)
    x = torch.randn(5, 24)
    assert torch.equal(F.linear(x, linear.weight, bias=linear.bias), linear(x))
    assert torch.equal(F.linear(input=x, weight=linear.weight, bias=linear.bias), linear(x))


@dtypes
def test_groups(dtype: torch.dtype) -> None:
    linear = layer(GROUPS, 64, 40, dtype=dtype)
    for rows in (1, 5, 40):
        x = torch.randn(rows, 64).to(dtype)
        cpuaccel.reset_stats()
        result = linear(x)
        assert cpuaccel.stats()["calls"] == {GROUPS.counted: 1}
        bound = 4 * torch.finfo(dtype).eps
        assert_close(result, by_torchao(linear, x), rtol=bound, atol=16 * bound)


@kinds
def test_weights_of_one_scale(kind: Kind) -> None:
    linear = layer(kind, 24, 40)
    scale = linear.weight.scale.mean().reshape(1, 1)
    linear.weight.scale = scale
    x = torch.randn(5, 24)
    assert_right(kind, linear, x, by_cpuaccel(linear, x, kind=kind))


@kinds
def test_wide_sums(kind: Kind) -> None:
    """More than 65,793 products of bytes could overflow int32."""
    linear = layer(kind, 70000, 3)
    x = torch.randn(2, 70000)
    expected, _ = _layers.exact(kind, linear, x)
    assert_close(linear(x).double(), expected, rtol=1e-4, atol=1e-3)


@kinds
def test_sums_beyond_float16(kind: Kind) -> None:
    """torchao's own functions round sums to float16 before the scale: infinities (ao #1662)."""
    linear = layer(kind, 4096, 5, dtype=torch.float16)
    with torch.no_grad():
        linear.weight.qdata.fill_(127)
        linear.weight.scale.fill_(1e-4)
    x = (torch.rand(3, 4096) * 300).half()
    result = by_cpuaccel(linear, x, kind=kind)
    assert result.isfinite().all()
    expected, _ = _layers.exact(kind, linear, x)
    assert_close(result.double(), expected, rtol=2e-3, atol=1e-3)


@kinds
def test_wrong_arguments(kind: Kind) -> None:
    linear = layer(kind, 24, 40)
    with pytest.raises(RuntimeError, match="expected input to be floats with a last dimension of"):
        linear(torch.randn(5, 23))


@kinds
def test_a_changed_weight_is_noticed(kind: Kind) -> None:
    linear = layer(kind, 24, 40)
    x = torch.randn(5, 24)
    linear(x)
    for change in (
        lambda: linear.weight.qdata.clamp_(-50, 20),
        lambda: linear.weight.scale.mul_(2),
        lambda: linear.weight.qdata.numpy().fill(3),
        lambda: linear.bias.add_(1),
    ):
        with torch.no_grad():
            change()
        assert_right(kind, linear, x, by_cpuaccel(linear, x, kind=kind))


def test_a_scale_of_another_dtype_than_the_input() -> None:
    """SmoothQuant's scales may be f32 beside bf16 activations."""
    linear = layer(KINDS["dynamic"], 24, 40, dtype=torch.bfloat16)
    x = torch.randn(5, 24).bfloat16()
    linear.weight.act_pre_scale = torch.rand(24) + 0.5
    assert linear(x).dtype == torch.bfloat16
    assert_close(linear(x), by_torchao(linear, x), rtol=2e-2, atol=2e-2)


@kinds
@dtypes
def test_gradients_are_those_of_the_dequantized_weight(kind: Kind, dtype: torch.dtype) -> None:
    linear = layer(kind, 24, 40, dtype=dtype)
    linear.bias.requires_grad_()
    x = torch.randn(5, 24).to(dtype).requires_grad_()
    linear(x).square().sum().backward()
    gradient = 2 * linear(x).detach().double()
    weight = linear.weight.dequantize(torch.float32).double()
    tolerance = 20 * torch.finfo(dtype).eps
    assert x.grad is not None
    assert linear.bias.grad is not None
    _assert_near(x.grad, gradient @ weight, tolerance)
    _assert_near(linear.bias.grad, gradient.sum(0), tolerance)


def _assert_near(actual: Tensor, expected: Tensor, tolerance: float) -> None:
    assert (actual.double() - expected).abs().max() <= tolerance * expected.abs().max()
