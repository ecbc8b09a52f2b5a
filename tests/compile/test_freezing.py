"""Weights that Inductor freezes: regions take the layers and pack the weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._inductor import config
from torch.fx import symbolic_trace

from compile._compiled import Lambda, needs_onednn, randomized, seen
from cpuaccel.compile.frontend import backend

pytestmark = needs_onednn


def _network() -> nn.Module:
    torch.manual_seed(3)
    model = Lambda(
        lambda self, x: self.linear(F.relu(self.norm(self.conv(x))).flatten(1)),
        conv=nn.Conv2d(3, 8, 3),
        norm=nn.BatchNorm2d(8),
        linear=nn.Linear(8 * 10 * 10, 16),
    )
    return randomized(model)


@pytest.mark.parametrize("how", ["config", "options"])
def test_layers_are_taken(how: str) -> None:
    model, x = _network(), torch.rand(2, 3, 12, 12)
    options: dict[str, Any] = {"options": {"freezing": True}} if how == "options" else {}
    with config.patch(freezing=how == "config"):
        kinds = seen(model, x, float64=True, **options).kinds()
    assert {"Convolution", "MatMul"} <= {each[0] for each in kinds}


def test_weights_of_eight_bits_stay_frozen() -> None:
    """Inductor's patterns for them need constants."""
    traced = symbolic_trace(nn.Sequential(nn.Linear(4, 4)))
    assert backend._regions_pack_frozen_weights(traced)
    traced.register_buffer("packed", torch.zeros(4, 4, dtype=torch.int8))
    assert not backend._regions_pack_frozen_weights(traced)
