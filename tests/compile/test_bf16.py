"""bf16 models and autocast: the same partitions as in fp32, results as accurate as eager's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from compile import _bf16, _blocks, _functions
from compile._compiled import Lambda, needs_onednn, randomized
from compile._patterns import Partitions, Pattern, each_of, of
from compile._rewritten import check
from compile._transformers import WIDTH, Attention, Layer, kinds_of, needs_attention
from compile.test_dynamic_shapes import check_sizes, regions_of_fixed_sizes, rows
from compile.test_resizing import KINDS, between
from cpuaccel.compile.common import report

pytestmark = needs_onednn


def test_in_a_process_of_its_own() -> None:
    _bf16.in_a_process_of_its_own(__file__)


def _seen(
    model: nn.Module, *args: Tensor, autocast: bool = False, dynamic: bool = False
) -> report.Report:
    """Compile and compare with fp32; the error must not be larger than eager bf16's.

    `dynamic` makes the length of the first argument, its second dimension, dynamic.
    """
    torch.manual_seed(0)
    model = model.eval()
    with torch.no_grad():
        exact = model.float()(*(arg.float() for arg in args))
        if not autocast:
            model, args = model.bfloat16(), tuple(arg.bfloat16() for arg in args)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            eager = model(*args)
            report.clear()
            torch._dynamo.reset()
            if dynamic:
                torch._dynamo.mark_dynamic(args[0], 1)
            found = torch.compile(model, backend="cpuaccel", fullgraph=True)(*args)
    assert found.dtype == eager.dtype
    assert found.stride() == eager.stride()
    error, allowed = (float((each.float() - exact).norm()) for each in (found, eager))
    assert error <= 1.5 * allowed + 1e-3 * float(exact.norm())
    (one,) = report.reports()
    return one


@pytest.mark.usefixtures("bf16")
@each_of([*_functions.PATTERNS, *_blocks.PATTERNS], "floats")
def test_patterns(pattern: Pattern, kinds: Partitions) -> None:
    model = randomized(pattern.make()).bfloat16()
    assert of(check(model, *(each.bfloat16() for each in pattern.inputs()))) == kinds


@pytest.mark.usefixtures("bf16")
@each_of(_functions.PATTERNS, "floats")
def test_patterns_under_autocast(pattern: Pattern, kinds: Partitions) -> None:
    model = randomized(pattern.make())
    assert of(check(model, *pattern.inputs(), autocast=True)) == kinds


@pytest.mark.usefixtures("bf16")
@each_of(_blocks.PATTERNS, "floats")
def test_patterns_of_bf16_values_under_autocast(pattern: Pattern, kinds: Partitions) -> None:
    """Inputs are bf16, as after a layer; Inductor runs ops that mix bf16 and f32."""
    model = randomized(pattern.make())
    inputs = (each.bfloat16() for each in pattern.inputs())
    assert of(check(model, *inputs, autocast=True)) == kinds


@pytest.mark.usefixtures("bf16")
@pytest.mark.parametrize("autocast", [False, True])
def test_linear_layers_and_post_ops(autocast: bool) -> None:
    def block(self: Any, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x)))

    model = Lambda(block, up=nn.Linear(32, 64), down=nn.Linear(64, 32))
    found = _seen(model, torch.randn(2, 5, 32), autocast=autocast)
    assert found.kinds() == [("MatMul", "GELU"), ("MatMul",)]
    assert len(found.regions) == 1


@needs_attention
@pytest.mark.usefixtures("bf16")
@pytest.mark.parametrize("autocast", [False, True])
def test_attention_is_in_the_region_of_its_projections(autocast: bool) -> None:
    found = _seen(Attention(), torch.randn(2, 20, WIDTH), autocast=autocast)
    assert kinds_of(found) == {("MatMul",): 4, ("attention",): 1}
    assert len(found.regions) == 1


@needs_attention
@pytest.mark.usefixtures("bf16")
@pytest.mark.parametrize("dynamic", [False, True])
def test_layers_of_an_encoder_are_one_region(dynamic: bool) -> None:
    model = nn.Sequential(Layer(False), Layer(True))
    found = _seen(model, torch.randn(1, 20, WIDTH), dynamic=dynamic)
    kinds = kinds_of(found)
    assert len(found.regions) == 1
    assert kinds[("attention",)] == 2
    assert kinds[("LayerNorm",)] == 4


@needs_attention
@pytest.mark.usefixtures("bf16")
def test_batches_and_lengths_of_an_encoder_under_autocast() -> None:
    model, autocast = Layer(True), torch.autocast("cpu", torch.bfloat16)
    found = check_sizes(model, rows((2, 4, 1, 3)), autocast, atol=0.05)
    assert found.regions == regions_of_fixed_sizes(model, autocast)


@pytest.mark.usefixtures("bf16")
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_images_are_resized_between_layers(mode: str, autocast: bool) -> None:
    model = between(scale_factor=2, mode=mode)
    assert _seen(model, torch.randn(2, 16, 12, 12), autocast=autocast).kinds() == KINDS
