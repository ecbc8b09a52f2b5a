"""gptqmodel's layers for torch: taken over from its import on, and by `convert_gptqmodel`.

gptqmodel is not among the project's tools. So these tests have stand-ins with the buffers and the
forward of its layers (7.7). The last test has the layers themselves, where they are installed.
"""

from __future__ import annotations

import copy
import logging
import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import cpuaccel
from cpuaccel.quant import convert_gptqmodel
from cpuaccel.quant.intx_linear import IntxLinear
from quant._checkpoints import Layer, awq_tensors, gptq_tensors, random_layer
from quant._engine import counted, needs_plugin, off

pytestmark = needs_plugin

_GPTQ, _AWQ = "gptqmodel.nn_modules.qlinear.torch", "gptqmodel.nn_modules.qlinear.torch_awq"


class _StandIn(nn.Module):
    """A layer with gptqmodel's buffers, which computes with the dequantized weight."""

    def __init__(self, layer: Layer, tensors: dict[str, Tensor], bits: int, bias: bool) -> None:
        super().__init__()
        self.out_features, self.in_features = layer.codes.shape
        self.bits, self.group_size = bits, self.in_features // layer.scales.shape[1]
        self.adapter = None
        self.online_full_had = self.online_partial_had = self.planar = False
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)
        self.register_buffer("bias", torch.rand(self.out_features).half() if bias else None)
        self.plain = layer
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        weight = self.plain.weight().to(x.dtype) * 1
        return nn.functional.linear(x, weight, None if self.bias is None else self.bias.to(x.dtype))


@pytest.fixture
def classes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Stand-ins for gptqmodel's modules, which cpuaccel finds when it is switched on."""
    made = {}
    for module, name in ((_GPTQ, "TorchLinear"), (_AWQ, "AwqTorchLinear")):
        made[name] = type(name, (_StandIn,), {"__module__": module, "forward": _StandIn.forward})
        stand_in = ModuleType(module)
        setattr(stand_in, name, made[name])
        monkeypatch.setitem(sys.modules, module, stand_in)
    cpuaccel.disable()
    cpuaccel.enable()
    yield made
    cpuaccel.disable()
    cpuaccel.enable()


def _gptq(classes: Any, bits: int = 4, group: int = 32, order: bool = False, N: int = 96) -> Any:
    torch.manual_seed(bits)
    layer = random_layer(N, 64, bits, group, order)
    return classes["TorchLinear"](layer, gptq_tensors(layer, bits, "gptq_v2"), bits, bias=True)


def _by_planes(words: Tensor, bits: int) -> Tensor:
    """Words of integers one after another, as format "gptq_p" has them."""
    K = words.shape[0] * 32 // bits
    wide = words.long() & 0xFFFFFFFF
    integers = torch.zeros(K, words.shape[1], dtype=torch.long)
    for at in range(K * bits):
        integers[at // bits] |= (wide[at // 32] >> at % 32 & 1) << at % bits
    result = torch.zeros_like(wide)
    for k in range(K):
        first = 0
        for width in [each for each in (4, 2, 1) if bits & each]:
            at = k % 32 * width
            word = k // 32 * bits + first + at // 32
            part = integers[k] >> first & (1 << width) - 1
            result[word] |= part << at % 32
            first += width
    return torch.where(result >= 1 << 31, result - (1 << 32), result).to(torch.int32)


def _assert_taken_over(layer: Any, dtype: torch.dtype = torch.float32) -> None:
    for shape in ((64,), (1, 64), (2, 9, 64)):
        x = torch.randn(shape).to(dtype)
        with torch.no_grad(), counted() as counts:
            result = layer(x)
        assert counts.calls["packed_linear.cpuaccel"] == 1
        with off(), torch.no_grad():
            expected = layer(x)
        assert result.dtype == dtype
        close = 2e-5 if dtype == torch.float32 else 2e-2
        assert_close(result, expected, rtol=close, atol=close * float(expected.abs().max()))


@pytest.mark.parametrize("order", [False, True])
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_gptq_layers_run_on_the_kernels(classes: Any, bits: int, order: bool) -> None:
    for group in (16, 64):
        _assert_taken_over(_gptq(classes, bits, group, order))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_dtypes(classes: Any, dtype: torch.dtype) -> None:
    _assert_taken_over(_gptq(classes), dtype)


@pytest.mark.parametrize("bits", [3, 5, 6, 7])
def test_codes_stored_by_planes(classes: Any, bits: int) -> None:
    layer = _gptq(classes, bits)
    layer.planar = True
    layer.qweight = _by_planes(layer.qweight, bits)
    layer.qzeros = _by_planes(layer.qzeros.t().contiguous(), bits).t().contiguous()
    _assert_taken_over(layer)


def _awq(classes: Any) -> Any:
    layer = random_layer(96, 64, 4, 32, False)
    return classes["AwqTorchLinear"](layer, awq_tensors(layer), 4, bias=False)


def test_awq_layers_run_on_the_kernels(classes: Any) -> None:
    _assert_taken_over(_awq(classes))


@torch.no_grad()
def test_changed_buffers_are_noticed(classes: Any) -> None:
    layer, x = _gptq(classes), torch.randn(3, 64)
    first = layer(x) - layer.bias
    layer.scales.mul_(2)
    assert_close(layer(x) - layer.bias, first * 2, rtol=1e-5, atol=1e-4)
    layer.scales = layer.scales.float() / 2
    assert_close(layer(x) - layer.bias, first, rtol=1e-5, atol=1e-4)
    layer.bias.add_(1)
    assert_close(layer(x) - layer.bias, first, rtol=1e-5, atol=1e-4)
    assert_close(copy.deepcopy(layer)(x), layer(x))
    assert layer.state_dict().keys() == {"qweight", "qzeros", "scales", "g_idx", "bias"}


@torch.no_grad()
def test_what_stays_gptqmodels_has_a_reason(classes: Any) -> None:
    def assert_left(layer: Any, reason: str) -> None:
        with counted() as counts:
            layer(torch.randn(3, 64))
        assert not counts.calls.get("packed_linear.cpuaccel")
        assert [key for key in counts.fallbacks if key.startswith("gptqmodel") and reason in key]
        row = cpuaccel.explain(nn.Sequential(layer)).rows[0]
        assert row.provider == "torch"
        assert reason in row.reason

    layer = _gptq(classes)
    layer.adapter = object()
    assert_left(layer, "an adapter")
    layer = _gptq(classes)
    layer.online_full_had = True
    assert_left(layer, "a rotation")
    layer = _gptq(classes)
    layer.qweight = layer.qweight.to(torch.int16)
    assert_left(layer, "qweight is torch.int16")
    assert_left(_gptq(classes, group=4), "multiple of 8")
    layer = _gptq(classes).train()
    with counted() as counts:
        layer(torch.randn(3, 64))
    assert not counts.calls.get("packed_linear.cpuaccel")
    assert not [key for key in counts.fallbacks if key.startswith("gptqmodel")]


def test_autocast_has_its_dtype(classes: Any) -> None:
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        assert _gptq(classes)(torch.randn(3, 64)).dtype == torch.bfloat16


def test_buffers_of_inference_mode(classes: Any) -> None:
    with torch.inference_mode():
        layer = _gptq(classes)
        expected = layer(torch.ones(3, 64))
    with torch.no_grad():
        assert torch.equal(layer(torch.ones(3, 64)), expected)


def test_switched_off_it_is_gptqmodels(classes: Any) -> None:
    cls = classes["TorchLinear"]
    assert cls.forward is not _StandIn.forward
    with off():
        assert cls.forward is _StandIn.forward
    assert cls.forward is not _StandIn.forward


def test_gradients_flow_to_the_input(classes: Any) -> None:
    layer, x = _gptq(classes), torch.randn(3, 64, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad is not None
    assert_close(x.grad, layer.plain.weight().sum(0).expand(3, 64), rtol=1e-5, atol=1e-4)


def test_explained(classes: Any) -> None:
    row = cpuaccel.explain(nn.Sequential(_gptq(classes, 3))).rows[0]
    assert (row.provider, row.kernel) == ("cpuaccel", "gemm_wq")
    assert (row.problem, row.reason) == ("w4 96x64 g32", "gptqmodel's weight of 3 bits")


@torch.no_grad()
def test_convert(classes: Any, caplog: pytest.LogCaptureFixture) -> None:
    shared, left = _gptq(classes, order=True), _gptq(classes, N=64)
    left.adapter = object()
    model = nn.ModuleDict({"a": shared, "b": nn.Sequential(shared), "awq": _awq(classes)})
    model["left"] = left
    x = torch.randn(5, 64)
    expected = {name: model[name](x) for name in model}
    with caplog.at_level(logging.WARNING, "cpuaccel"):
        assert convert_gptqmodel(model) is model
    assert "left stays: an adapter" in caplog.text
    assert isinstance(model["a"], IntxLinear)
    assert model["a"] is model["b"][0]
    assert isinstance(model["awq"], IntxLinear)
    assert model["left"] is left
    for name in model:
        assert torch.equal(model[name](x), expected[name])
    rounded = convert_gptqmodel(nn.Sequential(_gptq(classes)), int8_activations=True)
    with counted() as counts:
        rounded(x)
    assert counts.calls["linear_dynamic.cpuaccel"] == 1


def test_convert_rejects_what_is_no_such_model(classes: Any) -> None:
    with pytest.raises(TypeError, match="contains gptqmodel's layers, but got a TorchLinear"):
        convert_gptqmodel(_gptq(classes))
    with pytest.raises(TypeError, match=r"expected model to be a torch.nn.Module, got int"):
        convert_gptqmodel(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the model has no layer of gptqmodel for torch"):
        convert_gptqmodel(nn.Linear(2, 2))


@torch.no_grad()
def test_the_package_itself() -> None:
    pytest.importorskip("gptqmodel", reason="gptqmodel is not installed", exc_type=ImportError)
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear

    for bits in (3, 4, 5, 8):
        layer = TorchLinear(
            bits=bits, group_size=32, sym=False, desc_act=True, in_features=64, out_features=96
        )
        for buffer in (layer.qweight, layer.qzeros):
            buffer.random_(-(2**31), 2**31 - 1)
        layer.scales.uniform_(0.01, 0.1)
        layer.g_idx.copy_(layer.g_idx[torch.randperm(64)])
        layer.optimized = True  # torch.compile of its dequantization takes long
        layer.post_init()
        x = torch.randn(3, 64)
        with counted() as counts:
            result = layer.eval()(x)
        assert counts.calls["packed_linear.cpuaccel"] == 1
        with off():
            expected = layer(x)
        # gptqmodel rounds the dequantized weight to float16.
        assert_close(result, expected, rtol=0, atol=1e-3 * float(expected.abs().max()))
