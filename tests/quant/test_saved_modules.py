"""Whole int8 models in pickles and files of torch.save, with cpuaccel and without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.ao.nn.intrinsic.quantized as nniq
import torch.ao.nn.quantized as nnq
import torch.ao.nn.quantized.dynamic as nnqd
from _process import run_python
from torch import Tensor, nn
from torch.fx import GraphModule

import cpuaccel
from quant import _models as m
from quant._engine import needs_front_end, running
from quant._saved import through_file, through_pickle

pytestmark = needs_front_end


through = pytest.mark.parametrize(
    "through", [through_pickle, through_file], ids=["pickle", "torch.save"]
)


@through
@torch.no_grad()
def test_a_model_of_convert_fx(through: Callable[[Any], Any]) -> None:
    with running("auto"), m.quiet():
        model = m.static_fx(m.seeded(m.small_cnn), m.image())
        loaded = through(model)
        assert isinstance(loaded, GraphModule)
        assert torch.equal(loaded(m.image(1)), model(m.image(1)))
        assert torch.equal(through(loaded)(m.image(1)), model(m.image(1)))


@through
@torch.no_grad()
def test_a_model_of_eager_mode(through: Callable[[Any], Any]) -> None:
    with running("auto"), m.quiet():
        model = m.eager_static(m.seeded(m.Stubbed), m.image())
        loaded = through(nn.Sequential(model))
        assert torch.equal(loaded(m.image(1)), model(m.image(1)))


_CONVOLUTIONS = [
    *((cls, sides) for sides, cls in enumerate((nnq.Conv1d, nnq.Conv2d, nnq.Conv3d), 1)),
    *((cls, n) for n, cls in enumerate((nniq.ConvReLU1d, nniq.ConvReLU2d, nniq.ConvReLU3d), 1)),
    (nnq.ConvTranspose2d, 2),
    *((cls, n) for n, cls in enumerate((nnqd.Conv1d, nnqd.Conv2d, nnqd.Conv3d), 1)),
]


@through
@pytest.mark.parametrize(
    ("cls", "sides"), _CONVOLUTIONS, ids=[f"{c.__module__}.{c.__name__}" for c, _ in _CONVOLUTIONS]
)
@torch.no_grad()
def test_a_convolution(cls: Any, sides: int, through: Callable[[Any], Any]) -> None:
    with running("auto"), m.quiet():
        torch.manual_seed(0)
        layer = cls(4, 6, 3, stride=2, padding=1)
        swapped = "Transpose" in cls.__name__
        weight = torch.randn([4, 6][:: -1 if not swapped else 1] + [3] * sides)
        layer.set_weight_bias(
            torch.quantize_per_tensor(weight, 0.02, 0, torch.qint8), torch.randn(6)
        )
        x = torch.randn([2, 4] + [7] * sides)
        x = x if cls.__module__.startswith("torch.ao.nn.quantized.dynamic") else _quantized(x)
        loaded = through(layer)
        found, expected = (each(x) for each in (loaded, layer))
        assert type(loaded) is cls
        assert loaded.extra_repr() == layer.extra_repr()
        assert torch.equal(_numbers(found), _numbers(expected))


def _quantized(x: Tensor) -> Tensor:
    return torch.quantize_per_tensor(x, 0.05, 64, torch.quint8)


def _numbers(x: Tensor) -> Tensor:
    return x.int_repr() if x.is_quantized else x


_SAVE = """
import torch
from torch import nn
import torch.ao.nn.intrinsic.quantized as nniq
torch.backends.quantized.engine = "x86"
torch.manual_seed(0)
layer = nniq.ConvReLU2d(3, 4, 3)
weight = torch.quantize_per_tensor(torch.randn(4, 3, 3, 3), 0.02, 0, torch.qint8)
layer.set_weight_bias(weight, None)
torch.save(nn.Sequential(layer, nn.ReLU()), {path!r})
"""
_RUN = """
import torch
torch.backends.quantized.engine = "x86"
x = torch.quantize_per_tensor(torch.ones(1, 3, 5, 5), 0.05, 64, torch.quint8)
print(torch.load({path!r}, weights_only=False)(x).int_repr().sum().item())
"""


@pytest.mark.parametrize(("saved_with", "loaded_with"), [("1", "0"), ("0", "1"), ("1", "1")])
def test_a_file_is_for_processes_with_and_without_cpuaccel(
    saved_with: str, loaded_with: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "model.pt")
    run_python(_SAVE.format(path=path), CPUACCEL=saved_with)
    assert int(run_python(_RUN.format(path=path), CPUACCEL=loaded_with)) >= 0


def test_off_the_methods_are_torchs() -> None:
    cls: Any = nnq.Conv2d
    on = cls.__setstate__
    with cpuaccel.enabled(False):
        assert cls.__setstate__ is not on
        assert cls.__reduce_ex__ is object.__reduce_ex__
    assert cls.__setstate__ is on


class _Mine(nnq.Conv2d):
    """A module whose constructor takes no arguments."""

    def __init__(self) -> None:
        super().__init__(1, 2, 3)


@torch.no_grad()
def test_a_subclass_with_another_constructor() -> None:
    with running("auto"), m.quiet():
        layer, x = _Mine(), _quantized(torch.ones(1, 1, 4, 4))
        layer.set_weight_bias(
            torch.quantize_per_tensor(torch.ones(2, 1, 3, 3), 0.02, 0, torch.qint8), None
        )
        assert torch.equal(through_pickle(layer)(x).int_repr(), layer(x).int_repr())


def test_scripted_modules_are_saved_as_torch_saves_them() -> None:
    layer = torch.jit.script(nnq.Conv2d(1, 1, 1))
    assert all(layer._c._has_method(name) for name in ("__getstate__", "__setstate__"))
