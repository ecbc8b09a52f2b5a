"""Packed modules under torch.func, in forward mode and differentiated twice: torch's values."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from _transforms import WAYS, check_way, finite_difference, forward_ad
from quant._engine import needs_plugin
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from prepack._models import is_packed, packed

pytestmark = [
    needs_plugin,
    pytest.mark.filterwarnings("ignore:There is a performance drop"),
    pytest.mark.filterwarnings("ignore:TF32 acceleration"),
    pytest.mark.filterwarnings("ignore:RNN module weights"),
]


class _First(nn.Module):
    """Returns the first result of a module with several, for one input."""

    def __init__(self, module: nn.Module, inputs: int = 1) -> None:
        super().__init__()
        self.module, self.inputs = module, inputs

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.module(*[x] * self.inputs)[0]
        return result


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(16, 64), (3, 16)),
    "linear without bias": (lambda: nn.Linear(16, 64, bias=False), (2, 3, 16)),
    "two linear": (
        lambda: nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64)),
        (3, 16),
    ),
    "conv1d": (lambda: nn.Conv1d(4, 64, 3, padding=1), (2, 4, 5)),
    "conv2d": (lambda: nn.Conv2d(3, 64, 3, stride=2, padding=1), (1, 3, 6, 6)),
    "conv2d in groups": (lambda: nn.Conv2d(4, 128, 3, groups=2, bias=False), (1, 4, 4, 4)),
    "conv2d, circular": (
        lambda: nn.Conv2d(3, 64, 3, padding=1, padding_mode="circular"),
        (3, 4, 4),
    ),
    "lstm": (lambda: _First(nn.LSTM(8, 16, batch_first=True)), (2, 3, 8)),
    "lstm, both directions": (lambda: _First(nn.LSTM(8, 16, 2, bidirectional=True)), (3, 2, 8)),
    "attention": (
        lambda: _First(nn.MultiheadAttention(64, 2, batch_first=True), 3),
        (1, 3, 64),
    ),
    "encoder layer": (
        lambda: nn.TransformerEncoderLayer(64, 2, 96, batch_first=True),
        (1, 3, 64),
    ),
}
models = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(autouse=True)
def _ops_with_rules() -> Iterator[None]:
    """Disables fast paths of attention and LSTM, for which torch has no forward-mode rules."""
    attends = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    with sdpa_kernel(SDPBackend.MATH), torch.backends.mkldnn.flags(enabled=False):
        yield
    torch.backends.mha.set_fastpath_enabled(attends)


def _both(name: str) -> tuple[nn.Module, nn.Module, Tensor]:
    make, shape = MODELS[name]
    plain = make().eval().requires_grad_(False)
    other = packed(plain)
    if not any(is_packed(module) for module in other.modules()):
        pytest.skip("not packed on this CPU")
    return plain, other, torch.randn(shape)


@models
@pytest.mark.parametrize("way", WAYS)
def test_by_input(name: str, way: str) -> None:
    plain, other, x = _both(name)
    check_way(way, other, plain, x)
    if way in ("jvp", "forward_ad"):
        expected = finite_difference(copy.deepcopy(plain).double(), x.double()).float()
        torch.testing.assert_close(WAYS[way](other, x), expected, rtol=1e-3, atol=1e-3)


@models
@pytest.mark.parametrize("way", ["jvp", "forward_ad", "vmap", "jacfwd"])
def test_it_stays_packed(name: str, way: str) -> None:
    _, other, x = _both(name)
    before = [is_packed(module) for module in other.modules()]
    WAYS[way](other, x)
    assert [is_packed(module) for module in other.modules()] == before


@pytest.mark.parametrize("name", [name for name in MODELS if "lstm" not in name])
def test_a_tangent_of_a_bias(name: str) -> None:
    plain, other, x = _both(name)

    def tangent(model: nn.Module) -> Tensor:
        with forward_ad.dual_level():
            for module in model.modules():
                bias = dict.get(module._parameters, "bias")
                if bias is not None:
                    dual = forward_ad.make_dual(bias.detach(), torch.ones_like(bias))
                    del module._parameters["bias"]
                    module.bias = dual
            result = forward_ad.unpack_dual(model(x)).tangent
            return torch.zeros(()) if result is None else result.clone()

    torch.testing.assert_close(tangent(other), tangent(plain), rtol=1e-4, atol=1e-4)


@models
def test_weights_read_in_a_transform_outlive_it(name: str) -> None:
    plain, other, x = _both(name)
    parameters = {key: value.clone() for key, value in plain.named_parameters()}

    def run(model: nn.Module) -> Any:
        def loss(given: dict[str, Tensor]) -> Tensor:
            result: Tensor = torch.func.functional_call(model, given, (x,)).square().sum()
            return result

        return torch.func.grad(loss)(parameters)

    torch.testing.assert_close(run(other), run(plain), rtol=1e-4, atol=1e-3)
    for key, value in other.named_parameters():
        assert type(value) is nn.Parameter
        assert torch.equal(value, parameters[key])
    torch.testing.assert_close(other(x), plain(x), rtol=1e-5, atol=1e-5)


def test_weights_read_in_a_fake_mode_outlive_it() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    plain, other, x = _both("linear")
    with FakeTensorMode():
        assert type(dict(other.named_parameters())["weight"]) is nn.Parameter
    torch.testing.assert_close(other(x), plain(x), rtol=1e-5, atol=1e-5)
