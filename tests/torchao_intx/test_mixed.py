"""Models of several torchao configs: FqnToConfig, and the opaque format of torch's op."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
import torch
from quant._engine import counted, needs_plugin, off
from torch import Tensor, nn
from torch.testing import assert_close

import cpuaccel

quantization = pytest.importorskip("torchao.quantization")
if not hasattr(quantization, "FqnToConfig"):
    pytest.skip("torchao has no FqnToConfig", allow_module_level=True)

pytestmark = needs_plugin


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(64, 64) for _ in range(4))
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 64)
        self.norm = nn.LayerNorm(64)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.out(torch.tanh(self.query(x) * self.key(x) + self.value(x)))
        y: Tensor = x + self.down(torch.relu(self.up(self.norm(x))))
        return y


def _model() -> nn.Module:
    torch.manual_seed(3)
    model = nn.Sequential(OrderedDict(first=_Block(), second=_Block(), head=nn.Linear(64, 32)))
    groups = quantization.PerGroup(32)
    config = quantization.FqnToConfig(
        OrderedDict(
            {
                "first.down": None,
                "first.up.weight": quantization.Int8WeightOnlyConfig(set_inductor_config=False),
                r"re:.*\.(query|key)": quantization.Int8DynamicActivationInt8WeightConfig(),
                r"re:first\.(value|out)": quantization.Int8DynamicActivationIntxWeightConfig(
                    weight_dtype=torch.int4, weight_granularity=groups
                ),
                r"re:second\.(value|out|up|down)": quantization.IntxWeightOnlyConfig(
                    weight_dtype=torch.int4, granularity=groups
                ),
            }
        )
    )
    quantization.quantize_(model, config, filter_fn=None)
    return model.eval()


_KERNELS = {
    "first.query": "qgemm",
    "first.key": "qgemm",
    "first.value": "qgemm_wq",
    "first.out": "qgemm_wq",
    "first.up": "gemm_w8",
    "second.query": "qgemm",
    "second.key": "qgemm",
    "second.value": "gemm_wq",
    "second.out": "gemm_wq",
    "second.up": "gemm_wq",
    "second.down": "gemm_wq",
}
"""first.down and head stay float."""


def test_each_layer_runs_on_its_kernel() -> None:
    model = _model()
    rows = {row.layer: row.kernel for row in cpuaccel.explain(model).rows}
    assert {name: rows[name] for name in _KERNELS} == _KERNELS
    layers = dict(model.named_modules())
    with torch.no_grad():
        for name, kernel in _KERNELS.items():
            layer: Any = layers[name]
            with counted() as counts:
                layer(torch.randn(3, layer.in_features))
            op = "linear_dynamic" if kernel.startswith("q") else "packed_linear"
            assert counts.calls == {f"{op}.cpuaccel": 1}, name
            assert not counts.fallbacks, name


@torch.no_grad()
def test_the_model_computes_what_torchao_computes() -> None:
    model, x = _model(), torch.randn(2, 5, 64)
    with counted() as counts:
        result = model(x)
    assert counts.calls["linear_dynamic.cpuaccel"] == 6
    assert counts.calls["packed_linear.cpuaccel"] == 5
    with off():
        expected = model(x)
    # An integer of a row that lies between two may be rounded to the other.
    assert_close(result, expected, rtol=0, atol=0.05)


@pytest.mark.skipif(torch.backends.kleidiai.is_available(), reason="torch packs for KleidiAI")
@pytest.mark.parametrize("granularity", ["group", "row"])
@torch.no_grad()
def test_the_opaque_format_of_torchs_op(monkeypatch: Any, granularity: str) -> None:
    """torchao allows it where torch has KleidiAI, but its op runs on each CPU."""
    monkeypatch.setattr(torch.backends.kleidiai, "is_available", lambda: True)
    groups = quantization.PerGroup(32) if granularity == "group" else quantization.PerAxis(0)

    def quantized(packing: str) -> nn.Module:
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(64, 96), nn.Linear(96, 40, bias=False)).eval()
        config = quantization.Int8DynamicActivationIntxWeightConfig(
            weight_dtype=torch.int4,
            weight_granularity=groups,
            weight_mapping_type=quantization.MappingType.SYMMETRIC,
            weight_scale_dtype=torch.bfloat16,
            intx_packing_format=packing,
        )
        quantization.quantize_(model, config)
        return model

    opaque, plain = quantized("opaque_aten_kleidiai"), quantized("unpacked_to_int8")
    for x in (torch.randn(7, 64), torch.randn(2, 3, 64), torch.randn(64), torch.randn(64, 5).t()):
        with counted() as counts:
            result = opaque(x)
        assert counts.calls == {"linear_dynamic.cpuaccel": 2}
        assert_close(result, plain(x), rtol=0, atol=0.02)
        with off():  # torch reads rows that are not contiguous as if they were
            assert_close(opaque(x.contiguous()), result, rtol=0, atol=0.02)
