"""Which provider runs a layer of a plan: timed once, cached, and reported."""

from __future__ import annotations

import pytest
import torch
from quant._engine import needs_torch_ao
from torch import Tensor, nn

import cpuaccel
from compile import _int8_models
from compile._compiled import needs_onednn, needs_vnni
from cpuaccel import _native

pytestmark = [needs_onednn, needs_vnni, pytest.mark.usefixtures("tuning_cache_file")]

_PROVIDERS = {"cpuaccel": 0, "onednn": 1, "fbgemm": 2}
"""As csrc/base/counters.h numbers them."""


class Net(nn.Module):
    """A stem, a depthwise and a pointwise layer with limits, a sum, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU6())
        self.depthwise = nn.Sequential(nn.Conv2d(32, 32, 3, 1, 1, groups=32), nn.Hardswish())
        self.pointwise = nn.Conv2d(32, 32, 1)
        self.last = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = x + self.pointwise(self.depthwise(x))
        return self.last(x.mean((2, 3)))


def _model() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 33, 33)
    return _int8_models.static(Net().eval(), x), x


def _asked() -> list[str]:
    return [name for name in _native.load().tuning_results() if name.startswith("provider ")]


def _error(result: Tensor, expected: Tensor) -> float:
    return float((result - expected).norm() / expected.norm())


def test_each_layer_is_timed_once() -> None:
    model, x = _model()
    optimized = cpuaccel.optimize(model, (x,), time_budget=0)
    assert len(_asked()) == 4
    assert torch.equal(optimized(x), model(x))
    cpuaccel.optimize(_model()[0], (x,), time_budget=0)
    assert len(_asked()) == 4


@pytest.mark.parametrize("provider", _PROVIDERS)
def test_bytes_are_eager_modes_whoever_is_known(provider: str) -> None:
    model, x = _model()
    expected = model(x)
    cpuaccel.optimize(model, (x,), time_budget=0)
    known = dict.fromkeys(_asked(), _PROVIDERS[provider])
    _native.load().set_tuning_results(known)
    cpuaccel.clear_caches()
    optimized = cpuaccel.optimize(_model()[0], (x,), time_budget=0)
    # The bytes stay those of eager mode: providers that would round differently are not used.
    assert torch.equal(optimized(x), expected)


@needs_torch_ao
def test_a_layer_whose_source_is_measured_as_it_runs() -> None:
    from torch.ao.quantization import QConfigMapping, per_channel_dynamic_qconfig
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

    torch.manual_seed(0)
    torch.backends.quantized.engine = "x86"
    x = torch.randn(24, 96)
    mapping = QConfigMapping().set_object_type(nn.Linear, per_channel_dynamic_qconfig)
    net = nn.Sequential(nn.Linear(96, 64), nn.Tanh(), nn.Linear(64, 32)).eval()
    model = convert_fx(prepare_fx(net, mapping, (x,)))
    optimized = cpuaccel.optimize(model, (x,), time_budget=0)
    assert [" f32_src f32_dst" in name for name in _asked()] == [True, True]
    torch.testing.assert_close(optimized(x), model(x), rtol=1e-4, atol=1e-5)


def test_an_unknown_provider_leaves_the_choice_to_the_table() -> None:
    model, x = _model()
    cpuaccel.optimize(model, (x,), time_budget=0)
    _native.load().set_tuning_results(dict.fromkeys(_asked(), 7))
    cpuaccel.clear_caches()
    optimized = cpuaccel.optimize(_model()[0], (x,), time_budget=0)
    assert _error(optimized(x), model(x)) < 0.05
