"""torchvision's nets with partitions: each convolution is in one, and results agree with eager's.

Nets that take longer to capture run under hypothesis' profile "thorough" only.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import settings
from torch import Tensor, nn

import cpuaccel
from benchmarks._torchvision import import_torchvision
from compile import _bf16
from compile._compiled import needs_onednn, randomized

pytestmark = needs_onednn

_ALL = settings().max_examples > 100

# Each net with the side of its images.
_QUICK = {"alexnet": 64, "squeezenet1_1": 48, "resnet18": 48, "mobilenet_v2": 48, "vgg11": 32}
_SLOW = {
    "resnet50": 48,
    "wide_resnet50_2": 48,
    "resnext50_32x4d": 48,
    "resnext101_32x8d": 32,
    "densenet121": 48,
    "densenet161": 32,
    "densenet169": 32,
    "densenet201": 32,
    "googlenet": 48,
    "inception_v3": 96,
    "mnasnet1_0": 48,
    "mobilenet_v3_large": 48,
    "mobilenet_v3_small": 48,
    "shufflenet_v2_x1_0": 48,
    "shufflenet_v2_x0_5": 48,
    "efficientnet_b0": 48,
    "efficientnet_b1": 48,
    "efficientnet_b2": 32,
    "efficientnet_b3": 32,
    "efficientnet_b4": 32,
    "efficientnet_b5": 32,
    "efficientnet_b6": 32,
    "efficientnet_b7": 32,
    "efficientnet_v2_s": 48,
    "regnet_y_400mf": 48,
    "regnet_x_400mf": 48,
    "convnext_tiny": 64,
    "squeezenet1_0": 48,
    "vgg16": 32,
    "vgg16_bn": 32,
    "resnet34": 48,
    "vit_b_32": 224,
    "swin_t": 64,
    "swin_v2_t": 64,
    "maxvit_t": 224,
}
_SEGMENTATION = {"fcn_resnet50": 48, "deeplabv3_resnet50": 48, "lraspp_mobilenet_v3_large": 48}
_NETS = _QUICK | _SLOW | _SEGMENTATION if _ALL else _QUICK
_BF16 = _NETS if _ALL else ("squeezenet1_1", "mobilenet_v2")


def _build(name: str) -> nn.Module:
    torch.manual_seed(0)
    options: dict[str, Any] = {"weights": None}
    if name in ("googlenet", "inception_v3"):
        options |= {"aux_logits": False, "init_weights": False}
    if name in _SEGMENTATION:
        options["weights_backbone"] = None
    model: nn.Module = import_torchvision().models.get_model(name, **options)
    return randomized(model).eval()


def _results(found: Any) -> list[Tensor]:
    return list(found.values()) if isinstance(found, dict) else [found]


def test_in_a_process_of_its_own() -> None:
    _bf16.in_a_process_of_its_own(__file__)


@pytest.mark.parametrize("name", _NETS)
def test_every_convolution_is_taken(name: str) -> None:
    model, x = _build(name), _images(name)
    with torch.no_grad():
        expected = _results(model(x))
        found = _optimized(model, x)
    for a, b in zip(found, expected, strict=True):
        assert float((a - b).norm()) <= 1e-4 * float(b.norm())


@pytest.mark.usefixtures("bf16")
@pytest.mark.parametrize("name", _BF16)
def test_every_convolution_is_taken_in_bf16(name: str) -> None:
    """The error against fp32 is similar to eager's."""
    model, x = _build(name), _images(name)
    with torch.no_grad():
        exact = _results(model(x))
        model, x = model.bfloat16(), x.bfloat16()
        eager = _results(model(x))
        found = _optimized(model, x)
    for ours, theirs, right in zip(found, eager, exact, strict=True):
        error, allowed = (float((each.float() - right).norm()) for each in (ours, theirs))
        assert error <= 1.5 * allowed + 1e-3 * float(right.norm())


def _images(name: str) -> Tensor:
    return torch.randn(2, 3, _NETS[name], _NETS[name])


def _optimized(model: nn.Module, x: Tensor) -> list[Tensor]:
    """Return the results with partitions; each convolution must be in one."""
    optimized = cpuaccel.optimize(model, (x,))
    found = optimized(x)
    (made,) = optimized.reports
    kinds = [kind for part in made.kinds() for kind in part]
    convolutions = sum(isinstance(module, nn.Conv2d) for module in model.modules())
    assert kinds.count("Convolution") == convolutions
    assert not any(left.op.startswith("convolution") for left in made.left)
    return _results(found)
