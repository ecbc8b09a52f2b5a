"""Inputs of public reports about weights of 4 and 8 bits on CPUs: right with cpuaccel."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
import torch
from quant._engine import counted, needs_plugin
from torch import Tensor, nn
from torch.testing import assert_close

quantization = pytest.importorskip("torchao.quantization")

pytestmark = needs_plugin

_PerGroup, _PerTensor = quantization.PerGroup, quantization.PerTensor


def _dequantized(layer: Any) -> Tensor:
    weight: Tensor = layer.weight.dequantize().double()
    return weight


@pytest.mark.skipif(torch.backends.kleidiai.is_available(), reason="torch packs for KleidiAI")
@pytest.mark.parametrize("N", [32, 48, 64, 128])
@pytest.mark.parametrize("K", [64, 256])
def test_dynamically_quantized_4bit_matmul(K: int, N: int) -> None:
    """pytorch/pytorch 143289: the ops as the proposal calls them, with a bias for the last."""
    aten: Any = torch.ops.aten
    torch.manual_seed(1)
    weight = torch.rand(N, K)
    for group in (32, 64, K):
        blocks = weight.reshape(N, -1, group)
        scales = blocks.abs().amax(-1) / 7
        scales = scales if group == K else scales.bfloat16()
        codes = (blocks / scales.float().unsqueeze(-1)).round().clamp(-8, 7).reshape(N, K) + 8
        codes = codes.to(torch.uint8)
        packed_codes = codes[:, 1::2] << 4 | codes[:, ::2]
        bias = torch.randn(N) if group == K else None
        packed = aten._dyn_quant_pack_4bit_weight(packed_codes, scales, bias, group, K, N)
        exact = (codes.double() - 8) * scales.double().repeat_interleave(group, 1)
        for M in (1, 32):
            x = torch.rand(M, K)
            result = aten._dyn_quant_matmul_4bit(x, packed, group, K, N)
            expected = x.double() @ exact.T + (0 if bias is None else bias.double())
            # Half a step of a row, which is 1 / 510, for each product.
            allowed = exact.abs().sum(1) / 505
            assert ((result.double() - expected).abs() <= allowed).all()


@pytest.mark.parametrize("rows", [1, 40])
@torch.no_grad()
def test_weight_only_int8_by_groups_in_float16(rows: int) -> None:
    """pytorch/ao 1662: NaN in float16, because sums overflow before they are scaled."""
    model = nn.Sequential(nn.Linear(1024, 64, bias=False)).half()
    config = quantization.IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=_PerGroup(256))
    quantization.quantize_(model, config)
    x = (torch.randn(rows, 1024) * 200).half()
    with counted() as counts:
        result = model(x)
    assert counts.calls == {"packed_linear.cpuaccel": 1}
    expected = x.double() @ _dequantized(model[0]).T
    assert_close(result.double(), expected, rtol=2e-3, atol=2e-3 * float(expected.abs().max()))


@pytest.mark.parametrize("bits", [4, 8])
@torch.no_grad()
def test_int8_activations_by_asymmetric_weights(bits: int) -> None:
    """pytorch/ao 1320: zero points of weights gave wrong results in eager mode."""
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(64, 48))
    model[0].weight.add_(0.3)
    config = quantization.Int8DynamicActivationIntxWeightConfig(
        weight_dtype=getattr(torch, f"int{bits}"),
        weight_granularity=_PerGroup(32),
        weight_mapping_type=quantization.MappingType.ASYMMETRIC,
    )
    quantization.quantize_(model, config)
    x = torch.randn(5, 64)
    with counted() as counts:
        result = model(x)
    assert counts.calls == {"linear_dynamic.cpuaccel": 1}
    weight = _dequantized(model[0])
    expected = x.double() @ weight.T + model[0].bias.double()
    step = (x.amax(1).clamp(min=0) - x.amin(1).clamp(max=0)).double() / 255
    allowed = 0.51 * step.unsqueeze(1) * weight.abs().sum(1) + 1e-5
    assert ((result.double() - expected).abs() <= allowed).all()


@torch.no_grad()
def test_parameters_by_regex_and_skipped_modules() -> None:
    """huggingface/diffusers 14667 and pytorch/ao 3867."""
    if not hasattr(quantization, "FqnToConfig"):
        pytest.skip("torchao has no FqnToConfig")
    block = OrderedDict(ff=nn.Linear(64, 64), proj=nn.Linear(64, 64), skipped=nn.Linear(64, 64))
    model = nn.Sequential(nn.Sequential(block))
    config = quantization.FqnToConfig(
        OrderedDict(
            {
                r"re:.*\.skipped": None,
                r"re:\d+\.ff.*.weight": quantization.Int8WeightOnlyConfig(
                    granularity=_PerTensor(), set_inductor_config=False
                ),
                r"re:\d+\.proj\.weight": quantization.Int8WeightOnlyConfig(
                    granularity=_PerGroup(32), set_inductor_config=False
                ),
            }
        )
    )
    quantization.quantize_(model, config, filter_fn=None)
    x = torch.randn(3, 64)
    with counted() as counts:
        result = model(x)
    assert counts.calls["packed_linear.cpuaccel"] == 2
    assert type(block["skipped"].weight) is nn.Parameter
    expected = x.double()
    for name, layer in block.items():
        weight = layer.weight.double() if name == "skipped" else _dequantized(layer)
        expected = expected @ weight.T + layer.bias.double()
    assert_close(result.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("K", [128, 144])
@torch.no_grad()
def test_int8_weights_of_65_columns(K: int) -> None:
    """pytorch/pytorch 140208: 32 bfloat16 rows, and NaN behind the last whole block."""
    x, weight = torch.randn(32, K).bfloat16(), torch.randint(-128, 128, (65, K), dtype=torch.int8)
    scales = torch.rand(65).bfloat16()
    result = torch._weight_int8pack_mm(x, weight, scales)
    expected = x.double() @ weight.double().T * scales.double()
    assert_close(result.double(), expected, rtol=2**-7, atol=0.05)
