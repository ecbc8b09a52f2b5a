"""Packed weights saved, copied and loaded on Arm, in torch's own format."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Iterator

import pytest
import torch
from quant._engine import engine
from torch import Tensor, nn

import cpuaccel
from aarch64._int8 import Q, activation, bias, counted, weight


@pytest.fixture(autouse=True)
def _onednn() -> Iterator[None]:
    with engine("onednn"):
        yield


def _linear():
    return Q.linear_prepack(weight(8, 16, per_channel=True), bias(8))


def _conv():
    w = weight(8, 4, 3, 3, per_channel=False)
    return Q.conv2d_prepack(w, bias(8), [2, 1], [1, 0], [1, 2], 1)


def _run(packed) -> Tensor:
    if "Linear" in str(packed._type()):
        return Q.linear(activation(3, 16), packed, 0.9, 100).int_repr()
    return Q.conv2d(activation(1, 4, 7, 9), packed, 1.7, 100).int_repr()


packs = pytest.mark.parametrize("pack", [_linear, _conv])


def _pickled(packed):
    return pickle.loads(pickle.dumps(packed))


@packs
@pytest.mark.parametrize("copied", [copy.deepcopy, _pickled])
def test_copies_are_ours_and_give_the_same(pack, copied) -> None:
    first = pack()
    with counted("linear.cpuaccel" if pack is _linear else "conv2d.cpuaccel"):
        second = copied(first)
        assert torch.equal(_run(second), _run(first))
    (w, b), (w2, b2) = first.unpack(), second.unpack()
    assert torch.equal(w.int_repr(), w2.int_repr())
    assert torch.equal(b, b2)
    assert w.qscheme() == w2.qscheme()


@packs
def test_the_saved_state_is_torchs(pack) -> None:
    ours = pack().__getstate__()
    with cpuaccel.enabled(False):
        theirs = pack().__getstate__()
    _assert_same(ours, theirs)


def _assert_same(ours: object, theirs: object) -> None:
    assert type(ours) is type(theirs)
    if isinstance(ours, Tensor):
        assert (ours.dtype, ours.stride()) == (theirs.dtype, theirs.stride())
        if ours.is_quantized:
            assert ours.qscheme() == theirs.qscheme()
            assert torch.equal(ours.int_repr(), theirs.int_repr())
        assert torch.equal(ours, theirs)
    elif isinstance(ours, tuple | list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            _assert_same(one, other)
    else:
        assert ours == theirs


@packs
def test_from_torch_to_us_and_back(pack) -> None:
    with cpuaccel.enabled(False):
        saved = pickle.dumps(pack())
        theirs = _run(pickle.loads(saved))
    ours = pickle.loads(saved)
    assert int((_run(ours).int() - theirs.int()).abs().max()) <= 1
    saved = pickle.dumps(ours)
    with cpuaccel.enabled(False):
        cpuaccel.reset_stats()
        assert torch.equal(_run(pickle.loads(saved)), theirs)
        assert not cpuaccel.stats()["calls"]


class _Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.conv = _linear(), _conv()

    def forward(self, x: Tensor, image: Tensor) -> tuple[Tensor, Tensor]:
        return (
            torch.ops.quantized.linear_relu(x, self.linear, 0.9, 100),
            torch.ops.quantized.conv2d(image, self.conv, 1.7, 100),
        )


def test_torchscript() -> None:
    x, image = activation(3, 16), activation(1, 4, 7, 9)
    model = _Layers().eval()
    expected = model(x, image)
    file = io.BytesIO()
    torch.jit.save(torch.jit.trace(model, (x, image)), file)
    file.seek(0)
    loaded = torch.jit.load(file)
    with counted("linear.cpuaccel", "conv2d.cpuaccel"):
        found = loaded(x, image)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one.int_repr(), other.int_repr())
