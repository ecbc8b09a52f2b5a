"""load_legacy of files of convert_fx models, in all formats, without torch's quantized tensors."""

from __future__ import annotations

import pytest
import torch
from _torch_ao_block import load_blocked
from torch import nn
from torch.fx import GraphModule

import cpuaccel
from cpuaccel.quant import lower
from quant._lowered import NothingQuantized, assert_close
from quant.legacy import _files

NETS = (_files.ResNet, _files.MobileNet, _files.Functional)


@pytest.mark.parametrize("way", _files.FILES)
@pytest.mark.parametrize("net", NETS, ids=lambda net: net.__name__)
def test_computes_what_the_saved_model_computes(net: type[nn.Module], way: str) -> None:
    model = _files.converted(net)
    expected = _files.result(model, _files.images())
    loaded = load_blocked(_files.FILES[way](model))
    assert isinstance(loaded, GraphModule)
    assert not loaded.training
    with NothingQuantized(), torch.no_grad():
        assert_close(loaded(_files.images()), expected)


@pytest.mark.parametrize("way", _files.FILES)
def test_optimized_it_returns_the_same_bytes(way: str) -> None:
    model = _files.converted(_files.ResNet)
    expected = _files.result(model, _files.images())
    loaded = load_blocked(_files.FILES[way](model))
    optimized = cpuaccel.optimize(loaded, (_files.images(),), time_budget=0)
    assert torch.equal(_files.result(optimized, _files.images()), expected)


@pytest.mark.parametrize("way", _files.FILES)
def test_has_the_form_that_lower_writes(way: str) -> None:
    model = _files.converted(_files.ResNet)
    loaded = load_blocked(_files.FILES[way](model))
    lowered = lower(model)
    assert _targets(loaded) == _targets(lowered)
    for tensor in loaded.buffers():
        assert not tensor.is_quantized


def _targets(module: nn.Module) -> list[str]:
    assert isinstance(module, GraphModule)
    quantized = "quantized_decomposed"
    return [str(n.target) for n in module.graph.nodes if quantized in str(n.target)]


def test_quantization_aware_training() -> None:
    model = _files.qat_converted(_files.ResNet)
    loaded = load_blocked(_files.saved(model))
    assert_close(_files.result(loaded, _files.images()), _files.result(model, _files.images()))


def test_files_of_torch_without_the_plugin() -> None:
    with cpuaccel.enabled(False):
        model = _files.converted(_files.ResNet)
        file, script = _files.saved(model), _files.scripted(model)
    expected = _files.result(model, _files.images())
    for each in (file, script):
        assert_close(_files.result(load_blocked(each), _files.images()), expected)


def test_a_graph_that_returns_a_dict_keeps_it() -> None:
    model = _files.converted(_files.Two)
    expected = _files.result(model, _files.images())
    found = _files.result(load_blocked(_files.saved(model)), _files.images())
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert_close(found[key], value)


def test_paths_and_open_files(tmp_path: object) -> None:
    import pathlib

    path = pathlib.Path(str(tmp_path)) / "model.pt"
    path.write_bytes(_files.saved(_files.converted(_files.Functional)).getvalue())
    expected = _files.result(load_blocked(path), _files.images())
    with path.open("rb") as file:
        assert torch.equal(_files.result(load_blocked(file), _files.images()), expected)
