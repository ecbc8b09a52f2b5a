"""Builds with and without the front end for torch.ao's quantized tensors."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.ao.quantization import quantize_dynamic

import cpuaccel
from cpuaccel import _native
from cpuaccel._explain import layers
from cpuaccel.quant import _front_end
from quant._engine import engine, needs_front_end, needs_plugin

pytestmark = needs_plugin


def test_a_build_with_the_front_end_overrides_the_ops_that_pack_weights() -> None:
    packs = "quantized::linear_prepack" in _native.load().overridden_ops()
    assert packs == _front_end.has_front_end()
    assert packs == (_native.load().torch_engine() is not None)


def _without_front_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (layers, _front_end):
        monkeypatch.setattr(module, "has_front_end", lambda: False)


def test_fuse_without_the_front_end_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    _without_front_end(monkeypatch)
    error = "cpuaccel.quant.fuse: this build of cpuaccel has no front end.*cpuaccel.quant.lower"
    with pytest.raises(RuntimeError, match=error):
        cpuaccel.quant.fuse(nn.Sequential())


def test_explain_without_the_front_end_says_why_torch_runs_a_layer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _without_front_end(monkeypatch)
    with engine("x86"):
        model = quantize_dynamic(nn.Sequential(nn.Linear(4, 4)), {nn.Linear})
        (row,) = cpuaccel.explain(model).rows
    assert (row.provider, row.reason) == ("torch", _front_end.MISSING)


@needs_front_end
def test_with_the_front_end_fuse_takes_a_model() -> None:
    with engine("x86"):
        model = torch.fx.symbolic_trace(nn.Sequential(nn.ReLU()).eval())
        assert isinstance(cpuaccel.quant.fuse(model), torch.fx.GraphModule)
