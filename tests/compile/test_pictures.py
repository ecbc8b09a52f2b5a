"""Parts of networks of pictures: AdaLN's scale and shift, quotients by 1, norms of images."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cpuaccel
from compile._compiled import Net, Net2, needs_onednn
from cpuaccel.compile.capture.capture import graph_of

pytestmark = needs_onednn

WIDTH = 48


def _ada_ln(self: Any, x: Tensor, time: Tensor) -> Tensor:
    """A block of DiT without its attention."""
    shift, scale, gate = self.modulation(F.silu(time)).chunk(3, 1)
    normed = F.layer_norm(x, (WIDTH,), eps=1e-6) * (1 + scale[:, None]) + shift[:, None]
    return x + gate.unsqueeze(1) * self.mlp(normed / 1.0)


def _block() -> Net2:
    torch.manual_seed(0)
    return Net2(_ada_ln, modulation=nn.Linear(WIDTH, 3 * WIDTH), mlp=nn.Linear(WIDTH, WIDTH)).eval()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("batch", [1, 3])
def test_scales_and_shifts_are_a_step(batch: int, dtype: torch.dtype) -> None:
    model = _block().to(dtype)
    x, time = torch.randn(batch, 10, WIDTH, dtype=dtype), torch.randn(batch, WIDTH, dtype=dtype)
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, (x, time), time_budget=0)
        exact = copy.deepcopy(model).double()(x.double(), time.double())
        tolerance = 1e-5 if dtype == torch.float32 else 5e-2
        torch.testing.assert_close(
            optimized(x, time).double(), exact, rtol=tolerance, atol=tolerance
        )
        steps = str(cpuaccel.explain(optimized, (x, time))).splitlines()
    shifted = [line for line in steps if line.startswith("Multiply+Add ")]
    assert shifted
    assert not any("onednn" in line for line in shifted)


def test_numbers_do_not_split_the_plan() -> None:
    model, x, time = _block(), torch.randn(1, 10, WIDTH), torch.randn(1, WIDTH)
    graph, *_ = graph_of(model, (x, time), {}, in_place=True)
    sums = (torch.ops.aten.add.Tensor, torch.ops.aten.div.Tensor)
    of_numbers = [node for node in graph.graph.nodes if node.target in sums]
    assert not any(isinstance(node.args[1], int | float) for node in of_numbers)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("number", [1, -2.5, 0.0, float("inf"), float("nan")])
def test_sums_with_numbers(number: float, dtype: torch.dtype) -> None:
    model = Net(
        lambda self, x: F.relu((self.layer(x) + number) * 2 - number), layer=nn.Linear(8, 8)
    ).to(dtype)
    x = torch.randn(3, 8, dtype=dtype)
    with torch.no_grad():
        optimized = cpuaccel.optimize(model.eval(), (x,), time_budget=0)
        expected = model(x)
        torch.testing.assert_close(optimized(x), expected, equal_nan=True)


def test_sums_of_integers_stay_torch_s() -> None:
    model = Net(lambda self, x: self.layer((x + 1).float()).relu(), layer=nn.Linear(8, 8)).eval()
    x = torch.arange(24).reshape(3, 8)
    with torch.no_grad():
        torch.testing.assert_close(cpuaccel.optimize(model, (x,), time_budget=0)(x), model(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_operand_that_lies_across_the_others(dtype: torch.dtype) -> None:
    """SAM's mask decoder adds an image, as rows of pixels, to rows of a linear layer."""
    model = Net2(
        lambda self, x, image: self.layer(self.layer(x) + image.flatten(2).transpose(1, 2)).relu(),
        layer=nn.Linear(32, 32),
    ).to(dtype)
    x, image = torch.randn(1, 48, 32, dtype=dtype), torch.randn(1, 32, 6, 8, dtype=dtype)
    with torch.no_grad():
        optimized = cpuaccel.optimize(model.eval(), (x, image), time_budget=0)
        exact = copy.deepcopy(model).double()(x.double(), image.double())
        tolerance = 1e-5 if dtype == torch.float32 else 5e-2
        torch.testing.assert_close(
            optimized(x, image).double(), exact, rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_a_norm_of_a_transposed_image(dtype: torch.dtype, layout: torch.memory_format) -> None:
    """oneDNN Graph read such rows number by number."""
    torch.manual_seed(0)
    model = Net(
        lambda self, x: self.layer(self.norm(x.permute(0, 2, 3, 1))).relu(),
        norm=nn.LayerNorm(WIDTH),
        layer=nn.Linear(WIDTH, WIDTH),
    ).eval()
    x = torch.randn(2, WIDTH, 5, 7)
    with torch.no_grad():
        exact = model(x)
        model, x = model.to(dtype), x.to(dtype, memory_format=layout)
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        tolerance = 1e-5 if dtype == torch.float32 else 5e-2
        torch.testing.assert_close(optimized(x).float(), exact, rtol=tolerance, atol=tolerance)
        steps = str(cpuaccel.explain(optimized, (x,))).splitlines()
    norms = [line for line in steps if line.startswith("LayerNorm ")]
    assert norms
    assert not any("onednn" in line for line in norms)
