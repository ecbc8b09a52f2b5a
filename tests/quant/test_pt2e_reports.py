"""Models of public reports about PT2E on CPUs: with cpuaccel they run on integers and are right."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule

pytest.importorskip("torchao", reason="requirements/dev.txt has torchao, which is not installed")

from compile._compiled import needs_onednn
from compile._int8_models import pt2e
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
    X86InductorQuantizer,
    get_default_x86_inductor_quantization_config,
)

import cpuaccel
from cpuaccel.quant.pt2e import X86Quantizer

pytestmark = needs_onednn


def _kinds(model: GraphModule, *inputs: Tensor) -> list[str]:
    """Compare eager calls on and off, and return the ops of the plan's steps."""
    with torch.no_grad():
        found = model(*inputs)
        with cpuaccel.enabled(False):
            expected = model(*inputs)
        steps = [s for plan in cpuaccel.explain(model, inputs).plans for s in plan.steps]
    assert (found - expected).abs().max() <= 0.03 * expected.abs().max()
    return [kind for step in steps for kind in step.kinds.split("+")]


@pytest.mark.parametrize("dynamic", [False, True])
def test_one_linear_layer(dynamic: bool) -> None:
    """pytorch/pytorch 108638: Inductor ran the layer of 1024 x 1024 weights in float."""
    torch.manual_seed(0)
    x = torch.randn(16, 1024)
    net = nn.Sequential(nn.Linear(1024, 1024))
    model = pt2e(net, x, quantizer=X86InductorQuantizer(), dynamic=dynamic)
    kinds = _kinds(model, x)
    assert kinds == (["q_linear_dynamic"] if dynamic else ["quantize", "q_linear"])


def test_a_converted_convolution_is_a_quantized_convolution() -> None:
    """pytorch/ao 3609, pytorch/pytorch 144434: eager calls ran float layers between quantizers."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 16, 3, stride=2)
            self.norm = nn.BatchNorm2d(16)
            self.last = nn.Conv2d(16, 8, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(torch.relu(self.norm(self.conv(x))))

    torch.manual_seed(0)
    x = torch.randn(1, 3, 33, 33).contiguous(memory_format=torch.channels_last)
    kinds = _kinds(pt2e(Net(), x, quantizer=X86InductorQuantizer()), x)
    assert kinds.count("q_conv") == 2
    assert "Convolution" not in kinds


class _Unit(nn.Module):
    """The unit of ShuffleNetV2."""

    def __init__(self) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(16, 16, 1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False),
            nn.BatchNorm2d(16),
            nn.Conv2d(16, 16, 1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
        )

    def forward(self, x: Tensor) -> Tensor:
        left, right = x.chunk(2, dim=1)
        y = torch.cat((left, self.branch(right)), dim=1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).contiguous().view(n, c, h, w)


class _Stage(nn.Module):
    """Two units after a concatenation, as the stages of ShuffleNetV2 have them."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(3, 16, 1)
        self.units = nn.Sequential(_Unit(), _Unit())
        self.last = nn.Conv2d(32, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat((torch.relu(self.left(x)), torch.relu(self.right(x))), dim=1)
        return self.last(self.units(x))


@pytest.mark.parametrize("quantizer", [X86InductorQuantizer, X86Quantizer])
def test_a_unit_of_shufflenet_keeps_its_accuracy(quantizer: type[X86InductorQuantizer]) -> None:
    """intel/torch-xpu-ops 3489: the scores of an int8 shufflenet_v2_x1_0 were noise."""
    torch.manual_seed(0)
    x = torch.randn(1, 3, 16, 16)
    net = _Stage().eval()
    model = pt2e(copy.deepcopy(net), x, quantizer=quantizer())
    kinds = _kinds(model, x)
    assert kinds.count("q_conv") == 9
    if quantizer is X86Quantizer:
        assert kinds.count("q_shuffle") == 2  # the halves that the second unit reads
        assert kinds.count("dequantize") == 0
        assert "Concat" not in kinds
    with torch.no_grad():
        found, exact = model(x), net(x)
    assert torch.cosine_similarity(found.flatten(), exact.flatten(), 0) > 0.999


def test_weights_that_are_quantized_in_each_call() -> None:
    """convert_pt2e(fold_quantize=False) leaves float weights before a quantize."""
    torch.manual_seed(0)
    x = torch.randn(2, 3, 12, 12)
    net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 8, 3))
    exported: Any = torch.export.export(net.eval(), (x,)).module()
    quantizer = X86Quantizer()
    quantizer.set_global(get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(exported, quantizer)
    with torch.no_grad():
        prepared(x)
        model = convert_pt2e(prepared, fold_quantize=False)
        found = model(x)
        with cpuaccel.enabled(False):
            expected = model(x)
    assert (found - expected).abs().max() <= 0.03 * expected.abs().max()
