"""Quantizing for a benchmark leaves no model alive."""

import gc
import weakref

import torch
from torch import nn

from benchmarks._quantize import calibrate, convert


def test_models_are_given_back():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval()
    prepared = calibrate(model, [torch.randn(1, 3, 8, 8)])
    converted = convert(prepared, torch.backends.quantized.engine)
    alive = [weakref.ref(prepared), weakref.ref(converted)]
    alive += [weakref.ref(module) for module in converted.modules()]
    del prepared, converted
    gc.collect()
    assert not any(reference() for reference in alive)
