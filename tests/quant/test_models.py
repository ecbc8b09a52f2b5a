"""Real model families: every layer, and the whole model, against torch's own x86 engine.

Each layer gets the input of torch's layer, so no difference propagates. For whole models torch
itself sets the measure: its x86 and fbgemm engines differ by rounding that grows from single
quanta, and cpuaccel may differ from x86 as much. If x86 is fbgemm (a machine without VNNI) that
difference is zero, and the distance to the float model decides instead: cpuaccel's signal-to-noise
ratio is at most 1 dB below torch's.
"""

from __future__ import annotations

import copy
import functools
import importlib.util
import math
from dataclasses import dataclass, field

import pytest
import torch
import torch.nn.functional as F
from _reference import assert_agree
from torch import Tensor, nn
from torch.ao.quantization import get_default_qconfig_mapping
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

from benchmarks import _torchvision as torchvision
from quant._engine import INTREE, counted, engine, needs_front_end, off, running
from quant._models import quiet

pytestmark = [
    needs_front_end,
    # Found without an import: on a machine without CUDA the import needs the helper.
    pytest.mark.skipif(
        importlib.util.find_spec("torchvision") is None, reason="torchvision is not installed"
    ),
]
SIDE = 64
NAMES = ("resnet18", "mobilenet_v2", "shufflenet_v2_x1_0", "efficientnet_b0", "googlenet")
models = pytest.mark.parametrize("name", NAMES)
providers = pytest.mark.parametrize("provider", ["auto", "onednn", "fbgemm"])


@dataclass
class Layer:
    """Input and output of one quantized layer of torch's."""

    inputs: tuple[Tensor, ...]
    output: Tensor


@dataclass
class Torchs:
    """A calibrated model, and its results on torch's own x86 and fbgemm engines."""

    prepared: nn.Module
    x: Tensor
    real: Tensor
    x86: Tensor
    fbgemm: Tensor
    layers: dict[str, Layer] = field(default_factory=dict)


def _images(name: str, seed: int) -> Tensor:
    return F.interpolate(torchvision.images(name, 2, seed=seed), size=(SIDE, SIDE), mode="area")


@functools.cache
def torchs(name: str) -> Torchs:
    """Made once for each model, and not changed by anything."""
    model, x = torchvision.build(name), _images(name, 1)
    with torch.no_grad(), quiet(), off():
        mapping = get_default_qconfig_mapping("x86")
        prepared = prepare_fx(copy.deepcopy(model), mapping, (x,))
        for seed in (1, 2):
            prepared(_images(name, seed))
        result = Torchs(prepared, x, model(x), *(_torch_output(prepared, x, e) for e in _ENGINES))
        with running(INTREE):
            converted = convert_fx(copy.deepcopy(prepared))
            for path, module in converted.named_modules():
                if is_quantized_layer(module):
                    module.register_forward_hook(functools.partial(_record, result.layers, path))
            converted(x)
    return result


_ENGINES = ("x86", "fbgemm")


def _torch_output(prepared: nn.Module, x: Tensor, name: str) -> Tensor:
    with engine(name):
        return convert_fx(copy.deepcopy(prepared))(x)


def _record(
    layers: dict[str, Layer], path: str, module: nn.Module, inputs: tuple, output: Tensor
) -> None:
    # Copies, because a following ReLU6 may work in place.
    layers[path] = Layer(tuple(x.clone() for x in inputs), output.clone())


def is_quantized_layer(module: nn.Module) -> bool:
    return hasattr(module, "_weight_bias") and hasattr(module, "scale")


@functools.cache
def converted(name: str, provider: str) -> nn.Module:
    """Made once for each model and provider, and not changed by runs."""
    with running(provider), quiet():
        return convert_fx(copy.deepcopy(torchs(name).prepared))


@providers
@models
def test_each_layer_agrees_with_torchs(name: str, provider: str) -> None:
    expected = torchs(name).layers
    with torch.no_grad(), running(provider):
        modules = dict(converted(name, provider).named_modules())
        layers = {path: m for path, m in modules.items() if is_quantized_layer(m)}
        assert layers.keys() == expected.keys()
        assert len(layers) > 15
        with counted() as counts:
            outputs = {path: m(*expected[path].inputs) for path, m in layers.items()}
    assert counts.ours() == len(layers)
    for path, output in outputs.items():
        try:
            assert_agree(output, expected[path].output)
        except AssertionError as error:
            raise AssertionError(f"{path}, {modules[path]}: {error}") from error


@models
def test_every_layer_runs_on_our_engine(name: str) -> None:
    with torch.no_grad(), running("auto"):
        model, x = converted(name, "auto"), torchs(name).x
        with counted() as counts:
            model(x)
    assert counts.ours() == len(torchs(name).layers)
    assert counts.intree() == 0
    assert not counts.fallbacks


@providers
@models
def test_the_whole_model_differs_no_more_than_fbgemm(name: str, provider: str) -> None:
    theirs = torchs(name)
    with torch.no_grad(), running(provider):
        ours = converted(name, provider)(theirs.x)
    allowed = float((theirs.fbgemm - theirs.x86).norm())
    if float((ours - theirs.x86).norm()) <= allowed:
        return
    ratio, torchs_ratio = _decibels(theirs.real, ours), _decibels(theirs.real, theirs.x86)
    assert ratio >= torchs_ratio - 1.0, f"{ratio:.2f} dB, torch {torchs_ratio:.2f} dB"


def _decibels(real: Tensor, quantized: Tensor) -> float:
    """Signal-to-noise ratio: the float model's output over the quantized model's error."""
    noise = float((real - quantized).norm())
    return math.inf if noise == 0 else 20 * math.log10(float(real.norm()) / noise)
