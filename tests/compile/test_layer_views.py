"""`_C.LayerViews`: tensors of a cache's layer, which change their sizes if nobody else sees it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from cpuaccel import _native

_NAMES = ("keys", "values")


class _Layer:
    def __init__(self, end: int) -> None:
        self.buffers = tuple(torch.randn(2, 3, 16, 4) for _ in _NAMES)
        self.keys, self.values = (each.narrow(2, 0, end) for each in self.buffers)

    def views(self) -> Any:
        end = self.keys.shape[2]
        return _native.load().LayerViews(_NAMES, (self.keys, self.values), 0, end)


def _same(layer: _Layer, begin: int, end: int) -> bool:
    return all(
        torch.equal(each, buffer[:, :, begin:end])
        for each, buffer in zip((layer.keys, layer.values), layer.buffers, strict=True)
    )


@pytest.mark.parametrize("inference", [False, True])
def test_positions_are_those_asked_for(inference: bool) -> None:
    with torch.inference_mode(inference), torch.no_grad():
        layer = _Layer(5)
        views = layer.views()
        addresses = [id(layer.keys), id(layer.values)]
        for begin, end in ((0, 6), (2, 9), (3, 16)):
            assert views.resize(layer, begin, end)
            assert (views.begin, views.end) == (begin, end)
            assert views.are_held_by(layer)
            assert _same(layer, begin, end)
        assert addresses == [id(layer.keys), id(layer.values)]


def _copied(layer: _Layer) -> Any:
    other = _Layer(1)
    other.values = layer.values
    return other


def _saved_for_backward(layer: _Layer) -> Tensor:
    with torch.enable_grad():
        return torch.ones((), requires_grad=True) * layer.keys


@pytest.mark.parametrize(
    "hold",
    [
        lambda layer: layer.keys,
        lambda layer: [layer.values],
        lambda layer: weakref.ref(layer.values),
        lambda layer: torch.utils.dlpack.to_dlpack(layer.keys),
        _copied,
        _saved_for_backward,
    ],
    ids=["name", "list", "weak", "dlpack", "copy", "autograd"],
)
def test_tensors_that_others_hold_stay_as_they_are(hold: Callable[[_Layer], Any]) -> None:
    layer = _Layer(5)
    views = layer.views()
    held = hold(layer)
    assert not views.resize(layer, 0, 6)
    assert _same(layer, 0, 5)
    assert (views.begin, views.end) == (0, 5)
    del held
    assert views.resize(layer, 0, 6)
    assert _same(layer, 0, 6)


def test_arrays_of_the_same_memory_keep_their_sizes() -> None:
    layer = _Layer(5)
    array = layer.keys.numpy()
    kept = array.copy()
    assert layer.views().resize(layer, 0, 6)
    assert (array == kept).all()


def _replace(layer: _Layer) -> None:
    layer.keys = layer.keys.clone()


def _delete(layer: _Layer) -> None:
    del layer.values


@pytest.mark.parametrize(
    "change",
    [_replace, _delete, lambda layer: layer.keys.set_(layer.keys.clone())],
    ids=["replace", "delete", "set"],
)
def test_what_the_layer_does_not_hold_is_left_alone(change: Callable[[_Layer], Any]) -> None:
    layer = _Layer(5)
    views = layer.views()
    change(layer)
    assert not views.are_held_by(layer)
    assert not views.resize(layer, 0, 6)
    assert (views.begin, views.end) == (0, 5)
    assert layer.keys.shape[2] == 5


def test_tensors_that_require_gradients_stay_as_they_are() -> None:
    layer = _Layer(5)
    layer.keys.requires_grad_()
    assert not layer.views().resize(layer, 0, 6)


def test_errors() -> None:
    made = _native.load().LayerViews
    with pytest.raises(TypeError, match="tensors"):
        made(_NAMES, (1, 2), 0, 1)
    with pytest.raises(TypeError, match="tensors"):
        made(_NAMES, (torch.zeros(2), torch.zeros(2)), 0, 1)
    with pytest.raises(ValueError, match="names"):
        made(_NAMES, (torch.zeros(2, 2, 2),), 0, 1)
