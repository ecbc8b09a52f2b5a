"""Files as older versions of torch wrote them: other package names, other states."""

from __future__ import annotations

import io
import zipfile
from collections import OrderedDict
from typing import Any

import pytest
import torch
from _torch_ao_block import load_blocked
from torch import Tensor, nn

from cpuaccel.quant._legacy.errors import LegacyError
from cpuaccel.quant._legacy.packed import unpack
from cpuaccel.quant._lowering.integers import Convolution, IntegerTensor, UnpackedLayer
from quant._lowered import assert_close
from quant.legacy import _files


def _renamed(file: io.BytesIO, before: bytes, after: bytes) -> io.BytesIO:
    """Replace a package in the names of a pickle. They end with a line, so lengths may change."""
    made = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            contents = old.read(name)
            is_pickle = name.endswith("data.pkl")
            new.writestr(name, contents.replace(before, after) if is_pickle else contents)
    return made


def test_package_names_before_torch_1_13() -> None:
    model = _files.converted(_files.ResNet)
    file = _renamed(_files.saved(model), b"ctorch.ao.nn.", b"ctorch.nn.")
    assert_close(_files.result(load_blocked(file), _files.images()), _of(model))


def _of(model: nn.Module) -> Tensor:
    result: Tensor = _files.result(model, _files.images())
    return result


def _weight() -> IntegerTensor:
    q = torch.randint(-128, 128, (4, 3, 3, 3), dtype=torch.int8)
    return IntegerTensor(q, 0.1, 0)


BIAS = torch.ones(4)
STATES: dict[str, Any] = {
    "version 1, torch 1.3 to 1.5": lambda w: (
        w,
        BIAS,
        [torch.tensor([2]), torch.tensor([1])],
        [torch.tensor([1]), torch.tensor([0])],
        [torch.tensor([1]), torch.tensor([1])],
        torch.tensor([1]),
    ),
    "version 2, since torch 1.6": lambda w: (
        "2",
        [torch.tensor([2, 2, 1, 1, 0, 1, 1, 0, 0, 1, 0], dtype=torch.int16), w],
        [BIAS],
    ),
    "version 3": lambda w: (3, [2, 2, 1, 1, 0, 1, 1, 0, 0, 1, 0], [None, w, BIAS]),
}


@pytest.mark.parametrize("version", STATES)
def test_states_of_packed_convolutions(version: str) -> None:
    weight = _weight()
    layer = unpack("quantized.Conv2dPackedParamsBase", STATES[version](weight))
    assert isinstance(layer, UnpackedLayer)
    assert layer.weight is weight
    assert layer.bias is BIAS
    assert layer.convolution == Convolution(False, [2, 1], [1, 0], [0, 0], [1, 1], 1)


@pytest.mark.parametrize(
    "state",
    [
        (),
        ("2", [], []),
        ("2", [torch.tensor([2, 1]), _weight()], [None]),
        ("2", [torch.zeros(11), torch.zeros(4, 3, 3, 3)], [None]),
        (4, [2, 2, 1, 1, 0, 1, 1, 0, 0, 1, 0], [None, _weight(), None]),
        (3, [2, 2, 1, 1, 0, 1, 1, 0, 0, 1, 0], [None, _weight(), torch.ones(5)]),
        (3, [2, 2, 1, 1, 0, 1, 1, 0, 0, 0, 0], [None, _weight(), None]),
    ],
)
def test_damaged_states(state: Any) -> None:
    with pytest.raises(LegacyError):
        unpack("quantized.Conv2dPackedParamsBase", state)


def test_unknown_packed_classes_are_named() -> None:
    with pytest.raises(LegacyError, match=r"sparse\.LinearPackedParamsBase"):
        unpack("sparse.LinearPackedParamsBase", ())


@pytest.mark.parametrize("names", [("_packed_params.weight", "_packed_params.bias"), None])
def test_state_dicts_of_linear_layers_before_torch_1_5(names: tuple[str, str] | None) -> None:
    weight, bias = names or ("weight", "bias")
    model = _files.eager_converted()
    state: OrderedDict[str, Any] = OrderedDict()
    for name, value in model.state_dict().items():
        if name == "fc._packed_params._packed_params":
            state[f"fc.{weight}"], state[f"fc.{bias}"] = value
        elif name != "fc._packed_params.dtype":
            state[name] = value
    loaded = load_blocked(_files.saved(state), model=_files.made(_files.Eager))
    assert_close(_files.result(loaded, _files.images()), _of(model))


def test_a_checkpoint_with_a_key() -> None:
    model = _files.converted(_files.Functional)
    checkpoint = {"epoch": 3, "model": model, "optimizer": {"state": {}}}
    loaded = load_blocked(_files.saved(checkpoint), key="model")
    assert_close(_files.result(loaded, _files.images()), _of(model))
    with pytest.raises(ValueError, match=r"checkpoint with \['model', 'optimizer'\]: pass key="):
        load_blocked(_files.saved(checkpoint))
    with pytest.raises(ValueError, match=r"key: expected one of \['epoch'.*got 'net'"):
        load_blocked(_files.saved(checkpoint), key="net")


def test_a_state_dict_of_convert_fx() -> None:
    # pytorch/pytorch #51639: packed weights of functions are entries of the state dict.
    model = _files.converted(_files.Functional)
    file = _files.saved(model.state_dict())
    with pytest.raises(ValueError, match="pass what convert_fx returned for it"):
        load_blocked(file, model=_files.made(_files.Functional))
    other = _files.converted(_files.Functional)
    with torch.no_grad():
        for buffer in other.buffers():
            buffer.add_(1)  # what counts is the file
    loaded = load_blocked(file, model=other)
    assert_close(_files.result(loaded, _files.images()), _of(model))


@pytest.mark.parametrize("of", ["module", "state dict"])
def test_a_model_that_lacks_a_layer(of: str) -> None:
    model = _files.eager_converted()
    file = _files.saved(model if of == "module" else model.state_dict())
    skeleton = _files.made(_files.Eager)
    skeleton.fc = nn.Identity()
    skeleton.other = nn.Linear(8, 4)
    with pytest.raises(ValueError, match=r"no layer for|a quantized Identity|the file lacks"):
        load_blocked(file, model=skeleton)
    with pytest.raises(ValueError, match=r"Sequential has no layer for|none of the quantized"):
        load_blocked(file, model=nn.Sequential(nn.BatchNorm2d(3)))


def test_a_quantized_layer_without_a_rule_is_named() -> None:
    model = nn.Sequential(nn.EmbeddingBag(10, 4)).eval()
    quantized = _files.quietly(_bag)
    for value in (quantized, quantized.state_dict()):
        with pytest.raises(ValueError, match=r"EmbeddingBag"):
            load_blocked(_files.saved(value), model=model)


def _bag() -> nn.Module:
    import torch.ao.quantization as aq

    model = nn.Sequential(nn.EmbeddingBag(10, 4)).eval()
    model[0].qconfig = aq.float_qparams_weight_only_qconfig
    aq.prepare(model, inplace=True)
    return aq.convert(model)


def test_a_module_of_an_own_class_without_a_model() -> None:
    with pytest.raises(ValueError, match=r"Eager, whose forward is not in the file: pass model="):
        load_blocked(_files.saved(_files.eager_converted()))
    with pytest.raises(TypeError, match=r"model: expected a torch\.nn\.Module or None, got str"):
        load_blocked(_files.saved(_files.eager_converted()), model="Eager")
