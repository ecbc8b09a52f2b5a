"""load_legacy of eager-mode int8 models: pickles with model=, TorchScript, and state dicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from _torch_ao_block import load_blocked
from torch import nn

import cpuaccel
from quant._lowered import NothingQuantized, assert_close
from quant.legacy import _files


class _Stubs:
    """Classes with the names of torch.ao's, as users write them for a torch without torch.ao."""

    class QuantStub(nn.Identity):
        pass

    class DeQuantStub(nn.Identity):
        pass


def _without_ao() -> nn.Module:
    """Eager, of classes that torch will keep."""
    model = _files.made(_files.Eager)
    model.quant, model.dequant = _Stubs.QuantStub(), _Stubs.DeQuantStub()
    return model


SKELETONS: dict[str, Callable[[], nn.Module]] = {
    "the float model": lambda: _files.made(_files.Eager),
    "own stubs": _without_ao,
    "an Identity as QuantStub": lambda: _with_identity(),
    "the converted model": _files.eager_converted,
}


def _with_identity() -> nn.Module:
    model = _files.made(_files.Eager)
    model.quant = nn.Identity()
    return model


@pytest.mark.parametrize("of", SKELETONS)
@pytest.mark.parametrize("what", ["module", "state dict"])
@pytest.mark.parametrize("fused", [True, False])
def test_fills_the_model_of_the_user(what: str, of: str, fused: bool) -> None:
    model = _files.eager_converted(fused)
    if not fused and of == "the converted model":
        pytest.skip("that is another model: its batch norm is folded into the convolution")
    expected = _files.result(model, _files.images())
    file = _files.saved(model if what == "module" else model.state_dict())
    skeleton = SKELETONS[of]()
    if not fused:
        skeleton.bn = nn.Identity()
    loaded = load_blocked(file, model=skeleton)
    with NothingQuantized(), torch.no_grad():
        assert_close(loaded(_files.images()), expected)
    optimized = cpuaccel.optimize(loaded, (_files.images(),), time_budget=0)
    assert torch.equal(_files.result(optimized, _files.images()), expected)


def test_the_user_s_model_is_unchanged() -> None:
    file = _files.saved(_files.eager_converted().state_dict())
    skeleton = _files.made(_files.Eager)
    before = {name: value.clone() for name, value in skeleton.state_dict().items()}
    load_blocked(file, model=skeleton)
    for name, value in skeleton.state_dict().items():
        assert torch.equal(value, before[name]), name


@pytest.mark.parametrize("way", ["torch.jit.script", "torch.jit.trace"])
def test_torchscript_needs_no_model(way: str) -> None:
    model = _files.eager_converted()
    loaded = load_blocked(_files.FILES[way](model))
    assert_close(_files.result(loaded, _files.images()), _files.result(model, _files.images()))


def test_a_row_of_known_modules_needs_no_model() -> None:
    import torch.ao.quantization as aq

    def run() -> nn.Module:
        model = nn.Sequential(
            aq.QuantStub(),
            nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 4),
            nn.Sigmoid(),
            aq.DeQuantStub(),
        ).eval()
        model.qconfig = aq.get_default_qconfig("x86")
        aq.prepare(model, inplace=True)
        model(_files.images())
        return aq.convert(model)

    model = _files.quietly(run)
    loaded = load_blocked(_files.saved(model))
    assert_close(_files.result(loaded, _files.images()), _files.result(model, _files.images()))


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "Conv1d": (lambda: nn.Conv1d(4, 6, 3, 2, 1, dilation=1, groups=2), (2, 4, 9)),
    "Conv1d reflecting": (lambda: nn.Conv1d(4, 6, 3, padding=1, padding_mode="reflect"), (2, 4, 9)),
    "Conv2d reflecting": (
        lambda: nn.Conv2d(4, 6, 3, padding=(1, 2), padding_mode="reflect"),
        (2, 4, 9, 9),
    ),
    "Conv2d without bias": (lambda: nn.Conv2d(4, 6, (3, 1), bias=False), (2, 4, 9, 9)),
    "Conv3d": (lambda: nn.Conv3d(4, 6, 3, 1, 1), (1, 4, 5, 5, 5)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(4, 6, 3, 2, 1, 1), (2, 4, 9)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, groups=2), (2, 4, 9, 9)),
    "Linear": (lambda: nn.Linear(9, 5), (2, 4, 9)),
    "Hardswish": (nn.Hardswish, (2, 4, 9)),
    "ELU": (lambda: nn.ELU(0.7), (2, 4, 9)),
    "LeakyReLU": (lambda: nn.LeakyReLU(0.2), (2, 4, 9)),
    "LayerNorm": (lambda: nn.LayerNorm(9), (2, 4, 9)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (2, 4, 9)),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(4, affine=True), (2, 4, 9, 9)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(4), (2, 4, 9, 9)),
    "ReLU6": (nn.ReLU6, (2, 4, 9)),
}


@pytest.mark.parametrize("way", ["module", "state dict", "torch.jit.script", "torch.jit.trace"])
@pytest.mark.parametrize("name", MODULES)
def test_each_kind_of_module(name: str, way: str) -> None:
    import torch.ao.quantization as aq

    make, shape = MODULES[name]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(3))

    def float_model() -> nn.Module:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return nn.Sequential(aq.QuantStub(), make(), aq.DeQuantStub()).eval()

    def run() -> nn.Module:
        model = float_model()
        is_transposed = isinstance(model[1], nn.modules.conv._ConvTransposeNd)
        model.qconfig = aq.default_qconfig if is_transposed else aq.get_default_qconfig("x86")
        aq.prepare(model, inplace=True)
        model(x)
        return aq.convert(model)

    if name == "ELU" and way == "state dict":
        pytest.skip("torch.ao puts no quantizer of ELU into the state dict")
    model = _files.quietly(run)
    expected = _files.result(model, x)
    options: dict[str, Any] = {}
    if way == "torch.jit.script":
        file = _files.scripted(model)
    elif way == "torch.jit.trace":
        file = _files.traced(model, x)
    elif way == "module":
        file = _files.saved(model)
    else:
        file, options = _files.saved(model.state_dict()), {"model": float_model()}
    assert_close(_files.result(load_blocked(file, **options), x), expected)
