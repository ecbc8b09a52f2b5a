"""bf16 models and autocast: the same partitions as in fp32, results as near as eager's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cpuaccel import _native
from cpuaccel.graph import report
from graph._compiled import Lambda, needs_onednn, randomized
from graph._transformers import WIDTH, Attention, Layer, kinds_of, needs_attention
from graph.test_patterns import UNARY
from graph.test_resizing import KINDS, between

pytestmark = needs_onednn

_native_module = _native.native()
_has_bf16 = _native_module is not None and _native_module.has_bf16_arithmetic()

_PROBE = """graph 1 probe
value 0 bf16 16x16
value 1 bf16 16x16
value 2 bf16 16x16
input 0
constant 1
partition
op MatMul in 0 1 out 2
"""


def _onednn_has_bf16() -> bool:
    """Say whether oneDNN has it in this process: it keeps the first cap of the ISA that it met."""
    return not any(_native.load().why_not_compiled(_PROBE))


@pytest.fixture
def bf16() -> None:
    if not _has_bf16:
        pytest.skip("oneDNN has no layers of bf16 for a CPU without such arithmetic")
    if not _onednn_has_bf16():
        pytest.skip("an ISA cap of an earlier test: test_in_a_process_of_its_own runs this")


def test_in_a_process_of_its_own() -> None:
    if not _has_bf16:
        pytest.skip("oneDNN has no layers of bf16 for a CPU without such arithmetic")
    if _onednn_has_bf16():
        pytest.skip("the tests of this file run here")
    # The script, not the module: that would put the sources before the installed package.
    done = subprocess.run(
        [Path(sys.executable).with_name("pytest"), __file__, "-p", "no:cacheprovider"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout


def _seen(
    model: nn.Module, *args: Tensor, autocast: bool = False, dynamic: bool = False
) -> report.Report:
    """Compile, and hold the result against fp32, from which eager bf16 is as far at least.

    `dynamic` is the length of the first argument, its second dimension.
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
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize(
    ("function", "kinds"), [row[1:] for row in UNARY], ids=[row[0] for row in UNARY]
)
def test_a_function_runs_with_the_convolution_before_it(
    function: Callable[[Tensor], Tensor], kinds: tuple[str, ...], autocast: bool
) -> None:
    model = Lambda(lambda self, x: function(self.conv(x)), conv=nn.Conv2d(16, 16, 3, padding=1))
    found = _seen(model, torch.randn(2, 16, 12, 12), autocast=autocast)
    assert found.kinds() == [("Convolution", *kinds)]


@pytest.mark.usefixtures("bf16")
@pytest.mark.parametrize("autocast", [False, True])
def test_a_batch_norm_is_folded(autocast: bool) -> None:
    model = randomized(
        Lambda(
            lambda self, x: F.relu(self.norm(self.conv(x))),
            conv=nn.Conv2d(16, 16, 3, padding=1),
            norm=nn.BatchNorm2d(16),
        )
    )
    found = _seen(model, torch.randn(2, 16, 12, 12), autocast=autocast)
    assert found.kinds() == [("Convolution", "ReLU")]


@pytest.mark.usefixtures("bf16")
@pytest.mark.parametrize("autocast", [False, True])
def test_linear_layers_and_what_follows(autocast: bool) -> None:
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


@pytest.mark.usefixtures("bf16")
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_images_are_resized_between_layers(mode: str, autocast: bool) -> None:
    model = between(scale_factor=2, mode=mode)
    assert _seen(model, torch.randn(2, 16, 12, 12), autocast=autocast).kinds() == KINDS
