"""cpuaccel's PT2E quantizer: torchao's, extended by the projections of attention."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule

pytest.importorskip("torchao", reason="requirements/dev.txt has torchao, which is not installed")

from compile._compiled import needs_onednn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
    X86InductorQuantizer,
    get_default_x86_inductor_quantization_config,
)

import cpuaccel
from cpuaccel.quant.pt2e import X86Quantizer

WIDTH, HEADS, TOKENS = 32, 4, 9
DYNAMIC = pytest.mark.parametrize("dynamic", [False, True])


class Block(nn.Module):
    """An encoder layer as in torchvision's ViT."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.first = nn.Linear(WIDTH, 2 * WIDTH)
        self.dropout = nn.Dropout(0.1)
        self.second = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        y, _ = self.attention(y, y, y, need_weights=False)
        x = x + y
        return x + self.second(self.dropout(nn.functional.gelu(self.first(x))))


def _quantized(
    quantizer: X86InductorQuantizer, dynamic: bool, rows: int = 1, **configs: Any
) -> GraphModule:
    """A block quantized by `quantizer`; `configs` sets further configurations by module name."""
    torch.manual_seed(0)
    x = _input(rows)
    exported = torch.export.export(Block().eval(), (x,), strict=True).module()
    quantizer.set_global(get_default_x86_inductor_quantization_config(is_dynamic=dynamic))
    for name, config in configs.items():
        quantizer.set_module_name_qconfig(name, config)
    prepared = prepare_pt2e(exported, quantizer)
    prepared(x)
    return convert_pt2e(prepared)


def _input(rows: int = 1) -> Tensor:
    return torch.randn(rows, TOKENS, WIDTH, generator=torch.Generator().manual_seed(1))


def _int8_layers(model: GraphModule) -> list[bool]:
    """Whether each linear layer's weight is dequantized."""
    return [
        "dequantize" in str(node.args[1])
        for node in model.graph.nodes
        if node.target is torch.ops.aten.linear.default
    ]


@DYNAMIC
def test_attention_is_quantized_too(dynamic: bool) -> None:
    assert _int8_layers(_quantized(X86InductorQuantizer(), dynamic)) == [False, False, True, True]
    assert _int8_layers(_quantized(X86Quantizer(), dynamic)) == [True] * 4


def test_a_module_that_is_to_stay_in_floats() -> None:
    model = _quantized(X86Quantizer(), False, attention=None)
    assert _int8_layers(model) == [False, False, True, True]


def test_no_linear_layers_at_all() -> None:
    quantizer = X86Quantizer()
    quantizer.set_function_type_qconfig(nn.functional.linear, None)
    assert _int8_layers(_quantized(quantizer, False)) == [False] * 4


def test_nothing_is_set() -> None:
    exported = torch.export.export(Block().eval(), (_input(),), strict=True).module()
    prepared = prepare_pt2e(exported, X86Quantizer())
    assert _int8_layers(convert_pt2e(prepared)) == [False] * 4


@needs_onednn
@pytest.mark.parametrize("rows", [1, 2])
def test_a_plan_of_it(rows: int) -> None:
    """All four layers are int8 steps; one includes GELU in spite of the dropout after it."""
    model, x = _quantized(X86Quantizer(), False, rows=rows), _input(rows)
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        (plan,) = cpuaccel.explain(optimized, (x,)).plans
        expected, found = model(x), optimized(x)
    kinds = [step.kinds for step in plan.steps]
    assert kinds.count("q_linear") == 4
    # Norms quantize their results themselves; the results of attention and of the sum are separate
    # steps.
    assert [sum("quantize" in each for each in kinds), kinds.count("quantize")] == [3, 2]
    assert "attention" in kinds
    distance = (found - expected).abs().max() / expected.abs().max()
    assert float(distance) < 0.02


class Squeeze(nn.Module):
    """An inverted residual block as in MobileNetV3 and EfficientNet."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.expand = nn.Conv2d(WIDTH, 2 * WIDTH, 1)
        self.norm = nn.BatchNorm2d(2 * WIDTH)
        self.depthwise = nn.Conv2d(2 * WIDTH, 2 * WIDTH, 3, padding=1, groups=2 * WIDTH)
        self.reduce = nn.Conv2d(2 * WIDTH, 8, 1)
        self.restore = nn.Conv2d(8, 2 * WIDTH, 1)
        self.project = nn.Conv2d(2 * WIDTH, WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.stem(x))
        y = nn.functional.silu(self.norm(self.expand(x)))
        y = nn.functional.hardswish(self.depthwise(y))
        factors = self.restore(torch.relu(self.reduce(y.mean((2, 3), keepdim=True))))
        y = self.project(y * torch.sigmoid(factors))
        return torch.cat([x + y, nn.functional.max_pool2d(y, 3, 1, 1)], 1)


class Layers(nn.Module):
    """Layers that torchao's class leaves in float."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(WIDTH, 16, 2, stride=2)
        self.line = nn.Conv1d(16, 16, 3, padding=1)
        self.space = nn.Conv3d(16, 16, (1, 3, 3), padding=(0, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.up(x))
        y = torch.relu(self.space(y[:, :, None]).flatten(2))
        return self.line(y)


def _static(model: nn.Module, x: Tensor) -> GraphModule:
    exported = torch.export.export(model.eval(), (x,), strict=True).module()
    quantizer = X86Quantizer()
    quantizer.set_global(get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(exported, quantizer)
    with torch.no_grad():
        prepared(x)
    return convert_pt2e(prepared)


def _kinds(model: nn.Module, x: Tensor) -> list[str]:
    """Compare a plan with the model, and return the ops of its steps."""
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        found = optimized(x)
        with cpuaccel.enabled(False):
            expected = model(x)
        (plan,) = cpuaccel.explain(optimized, (x,)).plans
    assert (found - expected).abs().max() < 0.03 * expected.abs().max()
    return [kind for step in plan.steps for kind in step.kinds.split("+")]


@needs_onednn
def test_a_block_with_squeeze_and_excite_runs_on_integers() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, WIDTH, 12, 12)
    kinds = _kinds(_static(Squeeze(), x), x)
    assert kinds.count("q_conv") == 6
    floats = {"Convolution", "Multiply", "Add", "Concat", "MaxPool", "Sigmoid"}
    assert not floats & set(kinds), kinds
    assert {"q_avg_pool", "q_mul", "q_max_pool", "q_concat"} <= set(kinds), kinds


@needs_onednn
def test_convolutions_of_other_dimensions_run_on_integers() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, WIDTH, 6, 6)
    kinds = _kinds(_static(Layers(), x), x)
    assert kinds.count("q_conv") == 3
    assert not {"Convolution", "ConvTranspose"} & set(kinds), kinds


@needs_onednn
def test_a_hardswish_behind_a_linear_layer_is_a_table() -> None:
    torch.manual_seed(0)
    x = torch.randn(4, WIDTH)
    head = nn.Sequential(nn.Linear(WIDTH, 24), nn.Hardswish(), nn.Linear(24, 8))
    model = _static(head, x)
    hardswish = next(n for n in model.graph.nodes if "hardswish" in str(n.target))
    (source,) = hardswish.all_input_nodes
    assert source.target is torch.ops.quantized_decomposed.dequantize_per_tensor.default
    kinds = _kinds(model, x)
    assert kinds.count("q_linear") == 2
    assert not {"HardSwish", "MatMul"} & set(kinds), kinds


def test_without_torchao_the_error_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['torchao'] = None\n"
        "try:\n    import cpuaccel.quant.pt2e\n"
        "except ImportError as error:\n    print(error)\n"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert "cpuaccel.quant.pt2e" in printed
    assert "pip install torchao" in printed
