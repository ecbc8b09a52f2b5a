"""A PT2E model runs on integers in every way: compiled, optimized, saved and loaded, exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule

pytest.importorskip("torchao", reason="requirements/dev.txt has torchao, which is not installed")

from compile._compiled import needs_onednn
from torchao.quantization.pt2e import move_exported_model_to_eval
from torchao.quantization.pt2e.observer import HistogramObserver, PerChannelMinMaxObserver
from torchao.quantization.pt2e.quantize_pt2e import (
    convert_pt2e,
    prepare_pt2e,
    prepare_qat_pt2e,
)
from torchao.quantization.pt2e.quantizer import QuantizationConfig, QuantizationSpec
from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
    get_default_x86_inductor_quantization_config,
)

import cpuaccel
from cpuaccel.quant.pt2e import X86Quantizer
from quant.test_pt2e_eager import Net, _images, _plain

pytestmark = needs_onednn


def _symmetric() -> QuantizationConfig:
    """int8 activations and weights, both without zero points."""
    activation = QuantizationSpec(
        dtype=torch.int8,
        quant_min=-128,
        quant_max=127,
        qscheme=torch.per_tensor_symmetric,
        is_dynamic=False,
        observer_or_fake_quant_ctr=HistogramObserver.with_args(eps=2**-12),
    )
    weight = QuantizationSpec(
        dtype=torch.int8,
        quant_min=-127,
        quant_max=127,
        qscheme=torch.per_channel_symmetric,
        ch_axis=0,
        is_dynamic=False,
        observer_or_fake_quant_ctr=PerChannelMinMaxObserver.with_args(eps=2**-12),
    )
    return QuantizationConfig(activation, activation, weight, None, False)


CONFIGS = {
    "static": get_default_x86_inductor_quantization_config,
    "reduced range": lambda: get_default_x86_inductor_quantization_config(reduce_range=True),
    "symmetric int8": _symmetric,
    "trained": lambda: get_default_x86_inductor_quantization_config(is_qat=True),
}


@pytest.fixture(scope="module", params=CONFIGS)
def model(request: pytest.FixtureRequest) -> GraphModule:
    torch.manual_seed(0)
    config = CONFIGS[request.param]()
    net = Net().train(config.is_qat)
    exported = torch.export.export(net, (_images(),)).module()
    quantizer = X86Quantizer()
    quantizer.set_global(config)
    if config.is_qat:
        prepared = prepare_qat_pt2e(exported, quantizer)
        optimizer = torch.optim.SGD(prepared.parameters(), 1e-3)
        for step in range(3):
            optimizer.zero_grad()
            prepared(_images(seed=step)).square().mean().backward()
            optimizer.step()
    else:
        prepared = prepare_pt2e(exported, quantizer)
        with torch.no_grad():
            prepared(_images())
    with torch.no_grad():
        return move_exported_model_to_eval(convert_pt2e(prepared))


def _check(model: GraphModule, run: Any, x: Tensor) -> None:
    """Run, compare, and see that the region ran whose layers are integers."""
    cpuaccel.reset_stats()
    found = run(x)
    calls = cpuaccel.stats()["calls"]
    assert sum(n for name, n in calls.items() if name.startswith(("conv2d.", "conv2d_add."))) == 2
    assert sum(n for name, n in calls.items() if name.startswith("linear.")) == 1
    assert not any(name.startswith("fp32_convolution") for name in calls)
    expected = _plain(model, x)
    assert (found - expected).abs().max() <= 0.03 * expected.abs().max()


def test_eager_and_optimized(model: GraphModule) -> None:
    x = _images()
    with torch.no_grad():
        model(x)
        _check(model, model, x)
        optimized = cpuaccel.optimize(model, (x,), time_budget=0)
        _check(model, optimized, x)


def test_compiled(model: GraphModule) -> None:
    x = _images()
    torch._dynamo.reset()
    with torch.no_grad():
        compiled = torch.compile(model, backend="cpuaccel", fullgraph=True)
        compiled(x)
        _check(model, compiled, x)


def test_saved_and_loaded(model: GraphModule, tmp_path: Path) -> None:
    x = _images()
    path = tmp_path / "model.pt2"
    with torch.no_grad():
        cpuaccel.save(cpuaccel.optimize(model, (x,), time_budget=0), path)
        loaded = cpuaccel.load(path)
        loaded(x)
        _check(model, loaded, x)


def test_exported_saved_and_optimized(model: GraphModule, tmp_path: Path) -> None:
    x = _images()
    path = tmp_path / "exported.pt2"
    with torch.no_grad():
        torch.export.save(torch.export.export(model, (x,)), path)
        loaded: nn.Module = torch.export.load(path).module()
        optimized = cpuaccel.optimize(loaded, (x,), time_budget=0)
        _check(model, optimized, x)
