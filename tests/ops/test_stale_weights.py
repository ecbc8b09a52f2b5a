"""A layer never uses old weights: each way of changing them, in each mode.

Everything cached between calls (packed weights, a cast to bfloat16) must notice a change. Some of
these ways do not change a tensor's version counter, and inference tensors have none.
"""

import copy
import gc
import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import pytest
import torch
from _settings import setting
from quant._engine import needs_plugin, off
from torch import Tensor, nn

import cpuaccel
from ops._floats import PROVIDERS, on, providers

pytestmark = needs_plugin

_LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(96, 80), (33, 96)),
    "linear of one row": (lambda: nn.Linear(96, 80), (1, 96)),
    "large linear": (lambda: nn.Linear(512, 1024), (16, 512)),
    "large conv2d": (lambda: nn.Conv2d(128, 128, 3), (1, 128, 7, 7)),
    "conv1d": (lambda: nn.Conv1d(16, 32, 5), (2, 16, 40)),
    "conv2d": (lambda: nn.Conv2d(16, 32, 3, padding=1), (2, 16, 14, 14)),
    "conv2d 1x1": (lambda: nn.Conv2d(32, 48, 1), (2, 32, 14, 14)),
    "depthwise": (lambda: nn.Conv2d(32, 32, 3, groups=32), (2, 32, 14, 14)),
    "conv3d": (lambda: nn.Conv3d(8, 16, 3), (1, 8, 6, 6, 6)),
    "conv_transpose2d": (lambda: nn.ConvTranspose2d(16, 32, 3), (2, 16, 7, 7)),
}
# Convolutions do not depend on the provider of matrix products.
layers = pytest.mark.parametrize(
    ("kind", "provider"),
    [
        pytest.param(kind, provider, id=f"{kind}-{provider}")
        for kind in _LAYERS
        for provider in (PROVIDERS if "linear" in kind else PROVIDERS[:1])
    ],
)


@contextmanager
def _fast_math() -> Iterator[None]:
    """bf16 arithmetic, emulated because many CPUs lack it."""
    with setting("fastmath", "emulate"), cpuaccel.fastmath():
        yield


_MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "float32": nullcontext,
    "bfloat16 autocast": partial(torch.autocast, "cpu", torch.bfloat16),
    "fast math": _fast_math,
}


def _other(weight: Tensor) -> Tensor:
    """Weights that differ from the old ones."""
    return torch.full_like(weight, 0.25, requires_grad=False) - weight.detach()


def _in_place(layer: Any) -> None:
    layer.weight.neg_().add_(0.25)


def _through_data(layer: Any) -> None:
    layer.weight.data += 1


def _through_a_view(layer: Any) -> None:
    layer.weight.detach().view(-1)[::2] = 3


def _through_numpy(layer: Any) -> None:
    layer.weight.detach().numpy()[:] *= -2


def _through_storage(layer: Any) -> None:
    layer.weight.untyped_storage().copy_(_other(layer.weight).untyped_storage())


def _one_element(layer: Any) -> None:
    """Changes one element at an arbitrary position."""
    flat = layer.weight.detach().numpy().reshape(-1)
    flat[2 * len(flat) // 3 + 1] = 100


def _two_swapped(layer: Any) -> None:
    """The same values in another order, which a plain sum would not detect."""
    flat = layer.weight.detach().numpy().reshape(-1)
    flat[[0, -1]] = flat[[-1, 0]]


def _new_data(layer: Any) -> None:
    layer.weight.data = _other(layer.weight)


def _new_parameter(layer: Any) -> None:
    layer.weight = nn.Parameter(_other(layer.weight))


def _new_parameter_in_the_same_place(layer: Any) -> None:
    """The old parameter is freed first, so that the allocator is likely to reuse its memory."""
    values = _other(layer.weight).clone(memory_format=torch.contiguous_format)
    layer.weight = None
    gc.collect()
    layer.weight = nn.Parameter(torch.empty_like(values))
    with torch.no_grad():
        layer.weight.copy_(values)


def _loaded(layer: Any, *, assign: bool) -> None:
    state = {**layer.state_dict(), "weight": _other(layer.weight)}
    layer.load_state_dict(state, assign=assign)


def _from_a_file(layer: Any) -> None:
    file = io.BytesIO()
    torch.save({**layer.state_dict(), "weight": _other(layer.weight)}, file)
    file.seek(0)
    layer.load_state_dict(torch.load(file))


def _trained(layer: Any) -> None:
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    with torch.enable_grad():
        (layer.weight.square().sum() + layer.weight.sum()).backward()
    optimizer.step()


def _set(layer: Any) -> None:
    layer.weight.set_(_other(layer.weight))


def _swapped(layer: Any) -> None:
    torch.utils.swap_tensors(layer.weight, nn.Parameter(_other(layer.weight)))


def _moved(layer: Any) -> None:
    """Moves to another dtype and back, which rounds."""
    layer.to(torch.float16).to(torch.float32)


def _bias(layer: Any) -> None:
    layer.bias.data.add_(2)


_CHANGES: dict[str, Callable[[Any], None]] = {
    "in place": _in_place,
    "through .data": _through_data,
    "through a view": _through_a_view,
    "through numpy": _through_numpy,
    "through the storage": _through_storage,
    "one element": _one_element,
    "two swapped": _two_swapped,
    "new .data": _new_data,
    "new parameter": _new_parameter,
    "new parameter in the same place": _new_parameter_in_the_same_place,
    "loaded": partial(_loaded, assign=False),
    "loaded and assigned": partial(_loaded, assign=True),
    "from a file": _from_a_file,
    "trained": _trained,
    "set_": _set,
    "swapped": _swapped,
    "moved": _moved,
    "bias": _bias,
}

modes = pytest.mark.parametrize("mode", _MODES)


def _check(layer: nn.Module, x: Tensor, mode: str, provider: str) -> Tensor:
    """Checks and returns the layer's result; a new copy of it on torch is the reference."""
    with _MODES[mode]():
        with on(provider):
            ours = layer(x)
        with off():
            theirs = copy.deepcopy(layer)(x)
    near = {"float32": 1e-4, "bfloat16 autocast": 0.02, "fast math": 0.02}[mode]
    size = max(1.0, float(theirs.detach().abs().max()))
    torch.testing.assert_close(ours, theirs, rtol=near, atol=near * size)
    return theirs.detach().clone()


def _made(kind: str) -> tuple[nn.Module, Tensor]:
    """A layer whose first and last weight are large and different, and an input for it."""
    make, shape = _LAYERS[kind]
    layer: Any = make()
    layer.weight.data.view(-1)[[0, -1]] = torch.tensor([3.0, -2.0])
    return layer, torch.randn(shape)


def _calls_keep(layer: nn.Module, x: Tensor, mode: str, provider: str) -> Tensor:
    """Calls several times, so that everything is cached; returns the last result."""
    return [_check(layer, x, mode, provider) for _ in range(3)][-1]


@modes
@layers
@pytest.mark.parametrize("change", _CHANGES)
def test_changed(change: str, kind: str, mode: str, provider: str) -> None:
    layer, x = _made(kind)
    with torch.no_grad():
        before = _calls_keep(layer, x, mode, provider)
        _CHANGES[change](layer)
        after = _calls_keep(layer, x, mode, provider)
    # The change must be large enough to be seen; only "moved" keeps the values.
    assert change == "moved" or not torch.allclose(before, after, rtol=0.02, atol=0.02)


@modes
@layers
def test_inference_tensors(kind: str, mode: str, provider: str) -> None:
    with torch.inference_mode():
        layer, x = _made(kind)
        assert layer.weight.is_inference()
        for change in (_in_place, _through_data, _through_numpy, _one_element, _new_data):
            _calls_keep(layer, x, mode, provider)
            change(layer)
        _calls_keep(layer, x, mode, provider)


@modes
@layers
def test_training_and_inference_in_turn(kind: str, mode: str, provider: str) -> None:
    layer, x = _made(kind)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
    for _ in range(3):
        with torch.no_grad():
            _calls_keep(layer, x, mode, provider)
        with torch.inference_mode():
            _calls_keep(layer, x, mode, provider)
        optimizer.zero_grad()
        with on(provider):
            with _MODES[mode]():
                result = layer(x)
            result.float().square().mean().backward()
        optimizer.step()


@providers
@modes
def test_shared_between_modules(mode: str, provider: str) -> None:
    """Two layers with one weight, and a third with a part of it."""
    first, second = nn.Linear(96, 80), nn.Linear(96, 80)
    part = nn.Linear(96, 40)
    second.weight = first.weight
    part.weight = nn.Parameter(first.weight.detach()[20:60])
    x = torch.randn(33, 96)
    with torch.no_grad():
        for change in (_in_place, _through_numpy, _one_element):
            for layer in (first, second, part):
                _calls_keep(layer, x, mode, provider)
            change(second)
        for layer in (first, second, part):
            _calls_keep(layer, x, mode, provider)


@providers
@modes
def test_one_weight_in_two_layouts(mode: str, provider: str) -> None:
    """A matrix, its transpose, and a part of it start at the same address."""
    w = torch.randn(96, 96)
    x = torch.randn(33, 96)
    with torch.no_grad(), _MODES[mode]():
        for _ in range(3):
            for weight in (w, w.T, w[:48], w.view(48, 192)[:, :96]):
                with on(provider):
                    ours = nn.functional.linear(x, weight)
                with off():
                    theirs = nn.functional.linear(x, weight.clone())
                torch.testing.assert_close(
                    ours, theirs, rtol=0.02, atol=1e-4 if mode == "float32" else 0.2
                )


@modes
@layers
def test_many_layers_in_memory_used_again(kind: str, mode: str, provider: str) -> None:
    """Each layer is freed before the next is made, often at the same address."""
    with torch.no_grad():
        for _ in range(8):
            layer, x = _made(kind)
            _check(layer, x, mode, provider)
            _check(layer, x, mode, provider)
            del layer


@modes
@layers
def test_an_autocast_block_that_lasts(kind: str, mode: str, provider: str) -> None:
    """torch caches casts of parameters with gradients until the block ends; so may cpuaccel."""
    layer, x = _made(kind)
    with torch.no_grad():
        for _ in range(3):
            with on(provider), _MODES[mode]():
                layer(x)
                layer(x)
            _in_place(layer)
            _check(layer, x, mode, provider)
