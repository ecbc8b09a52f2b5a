"""torch.export.export of int8 models as torch.ao returns them."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
import torch.ao.quantization as aq
from quant._lowered import assert_close
from quant.legacy import _files
from torch import nn

import cpuaccel

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("kind", ["convert_fx", "convert", "quantize_dynamic"])
def test_it_exports_and_the_program_is_saved(kind: str, tmp_path: Path) -> None:
    # pytorch/pytorch #137111: "... does not have a field with name '__obj_flatten__'".
    if kind == "convert_fx":
        model: nn.Module = _files.converted(_files.ResNet)
    elif kind == "convert":
        model = _files.eager_converted()
    else:
        layers = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Flatten(), nn.Linear(1156, 3)).eval()
        model = aq.quantize_dynamic(layers, {nn.Linear})
    x = _files.images()
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2").module()
    assert_close(_files.result(loaded, x), _files.result(model, x))


def test_without_cpuaccel_torch_s_error_stays() -> None:
    model = _files.converted(_files.Functional)
    with cpuaccel.enabled(False), pytest.raises(Exception, match="__obj_flatten__"):
        torch.export.export(model, (_files.images(),))


def test_what_cannot_be_lowered_says_what_to_call() -> None:
    model = nn.Sequential(nn.LSTM(4, 6)).eval()
    quantized = aq.quantize_dynamic(copy.deepcopy(model), {nn.LSTM})
    with pytest.raises(TypeError, match=r"cpuaccel\.quant\.load_legacy"):
        torch.export.export(quantized, (torch.randn(5, 2, 4),))
    loaded = cpuaccel.quant.load_legacy(_files.saved(quantized), model=model)
    x = torch.randn(5, 2, 4)
    found = torch.export.export(loaded, (x,)).module()(x)
    torch.testing.assert_close(found[0], _files.result(quantized, x)[0])


def test_float_models_are_torch_s() -> None:
    model = nn.Sequential(nn.Linear(3, 3)).eval()
    program = torch.export.export(model, (torch.randn(2, 3),))
    assert "0.weight" in program.state_dict
