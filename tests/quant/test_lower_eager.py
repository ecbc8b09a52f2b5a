"""`cpuaccel.quant.lower` of eager-mode int8 models: as exact as for models from convert_fx."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.ao.nn.quantized as nnq
import torch.nn.functional as F
from torch import Tensor, nn
from torch.ao.quantization import (
    DeQuantStub,
    QuantStub,
    QuantWrapper,
    convert,
    float_qparams_weight_only_qconfig,
    fuse_modules,
    get_default_qconfig,
    prepare,
    quantize_dynamic,
)
from torch.fx import GraphModule

import cpuaccel
from quant import _models as m
from quant._engine import needs_plugin, running
from quant._lowered import NothingQuantized, assert_close

pytestmark = needs_plugin


@pytest.fixture(autouse=True)
def _exact() -> Any:
    with running("cpuaccel"), m.quiet(), torch.no_grad():
        yield


class Stubbed(nn.Module):
    """A function of two convolutions' results between stubs."""

    def __init__(self, function: Callable[[Any, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(3, 8, 1)
        self.relu, self.linear = nn.ReLU(), nn.Linear(8, 8)
        self.functional = nnq.FloatFunctional()

    def forward(self, x: Tensor) -> Tensor:
        x = self.quant(x)
        return self.dequant(self.function(self, self.relu(self.first(x)), self.second(x)))


def quantized(model: nn.Module, x: Tensor, fused: list[list[str]] | None = None) -> nn.Module:
    """Return torch.ao.quantization.convert's int8 form of a model."""
    model = model.eval()
    model.qconfig = get_default_qconfig("x86")
    if fused:
        model = fuse_modules(model, fused)
    prepared = prepare(model)
    prepared(x)
    return convert(prepared)


def stubbed(function: Callable[[Any, Tensor, Tensor], Tensor]) -> nn.Module:
    torch.manual_seed(0)
    return quantized(Stubbed(function), m.image(), [["first", "relu"]])


def _assert_equal(lowered: Any, model: Any, *inputs: Any) -> None:
    expected = model(*inputs)
    with NothingQuantized():
        found = lowered(*inputs)
    assert_close(found, expected)


_BETWEEN: dict[str, Callable[[Any, Tensor, Tensor], Tensor]] = {
    "add": lambda self, a, b: self.functional.add(a, b),
    "add_relu": lambda self, a, b: self.functional.add_relu(a, b),
    "mul": lambda self, a, b: self.functional.mul(a, b),
    "cat": lambda self, a, b: self.functional.cat([a, b], dim=1),
    "matmul": lambda self, a, b: self.functional.matmul(a, b),
    "add_scalar": lambda self, a, b: self.functional.add_scalar(b, 0.5),
    "mul_scalar": lambda self, a, b: self.functional.mul_scalar(b, -2.0),
    "interpolate": lambda self, a, b: F.interpolate(a, scale_factor=2.0),
    "adaptive_avg_pool": lambda self, a, b: F.adaptive_avg_pool2d(a, 2),
    "max_pool": lambda self, a, b: F.max_pool2d(b, 2),
    "mean and linear": lambda self, a, b: self.linear(b.mean((2, 3))),
    "flatten": lambda self, a, b: self.linear(torch.flatten(F.adaptive_avg_pool2d(a, 1), 1)),
    "reshape by its sizes": lambda self, a, b: b.reshape(b.size(0), -1),
    "relu": lambda self, a, b: F.relu(b),
}


def _odd_image(side: int = 11) -> Tensor:
    """An image whose mean is never half a quantum: versions of torch, and its ISAs, round it."""
    return m.image(5)[..., :side, :side]


def _image_for(name: str) -> Tensor:
    if "mean" in name:
        return _odd_image()
    # Four means of 25 pixels.
    return _odd_image(10) if name == "adaptive_avg_pool" else m.image(5)


@pytest.mark.parametrize("name", _BETWEEN)
def test_between_layers(name: str) -> None:
    model = stubbed(_BETWEEN[name])
    lowered = cpuaccel.quant.lower(model)
    assert isinstance(lowered, GraphModule)
    assert not lowered.meta["cpuaccel_left"]
    _assert_equal(lowered, model, _image_for(name))


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_a_scalar_that_is_not_finite_is_named(number: float) -> None:
    model = stubbed(lambda self, a, b: self.functional.add_scalar(b, number))
    with pytest.raises(ValueError, match=rf"expected a finite one, got {number}"):
        cpuaccel.quant.lower(model)


def test_functions_of_torch_ao() -> None:
    def function(self: Any, a: Tensor, b: Tensor) -> Tensor:
        b = nnq.functional.max_pool2d(b, 2)
        return nnq.functional.hardswish(nnq.functional.interpolate(b, scale_factor=2), 0.02, 64)

    model: Any = stubbed(lambda self, a, b: b)
    model.function = function
    lowered = cpuaccel.quant.lower(model)
    assert not lowered.meta["cpuaccel_left"]
    _assert_equal(lowered, model, m.image(5))


def test_a_wrapped_model() -> None:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=8), nn.MaxPool2d(2)]
    net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(128, 4), nn.ReLU())
    model = quantized(
        QuantWrapper(net), m.image(), [["module.0", "module.1"], ["module.5", "module.6"]]
    )
    _assert_equal(cpuaccel.quant.lower(model), model, m.image(5))


def test_a_model_stays_as_it_is() -> None:
    model = stubbed(_BETWEEN["add"])
    expected = model(m.image(5))
    before = {name: type(module) for name, module in model.named_modules()}
    cpuaccel.quant.lower(model)
    assert {name: type(module) for name, module in model.named_modules()} == before
    assert torch.equal(model(m.image(5)), expected)


class Assigning(nn.Module):
    """Stores what it computed, in itself and in a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.net = QuantWrapper(nn.Conv2d(3, 8, 3))

    def forward(self, x: Tensor) -> Tensor:
        self.last = self.net.module.last = self.net(x)
        return self.last


def test_what_a_forward_assigns_stays_the_models() -> None:
    model: Any = quantized(Assigning(), m.image())
    del model.last
    cpuaccel.quant.lower(model)
    assert not hasattr(model, "last")
    assert not isinstance(vars(model.net.module).get("last"), torch.fx.Proxy)


class Branching(nn.Module):
    """A forward that torch.fx cannot trace, around a part that it can."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part, self.last = part, nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.part(x)
        if float(x.sum()) > 1e9:
            x = x * 2
        return self.last(x)


def test_a_part_of_a_model_that_cannot_be_traced() -> None:
    part = stubbed(_BETWEEN["mean and linear"])
    model = Branching(part).eval()
    lowered: Any = cpuaccel.quant.lower(model)
    assert type(lowered) is Branching
    assert isinstance(lowered.part, GraphModule)
    assert lowered.last.weight is model.last.weight
    _assert_equal(lowered, model, _odd_image())


def test_dynamic_layers_are_parts_of_their_own() -> None:
    torch.manual_seed(0)
    model: Any = quantize_dynamic(Branching(nn.Linear(6, 8)).eval(), {nn.Linear})
    lowered: Any = cpuaccel.quant.lower(model)
    assert type(lowered) is Branching
    assert (lowered.part.in_features, lowered.part.out_features) == (6, 8)
    _assert_equal(lowered, model, torch.randn(3, 6))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(10, 8), nn.LSTM(8, 8, batch_first=True)
        self.linear = nn.Linear(8, 4)

    def forward(self, ids: Tensor) -> Tensor:
        x, _ = self.lstm(self.embedding(ids))
        return self.linear(x)


def test_an_embedding_and_a_layer_beside_an_lstm() -> None:
    torch.manual_seed(0)
    model: Any = Recurrent().eval()
    model.embedding.qconfig = float_qparams_weight_only_qconfig
    model = quantize_dynamic(convert(prepare(model)), {nn.LSTM, nn.Linear})
    assert type(model.embedding) is nnq.Embedding
    lowered: Any = cpuaccel.quant.lower(model)
    assert isinstance(lowered, GraphModule)
    assert isinstance(lowered.get_submodule("lstm"), torch.ao.nn.quantized.dynamic.LSTM)
    ids = torch.arange(6).reshape(2, 3)
    torch.testing.assert_close(lowered(ids), model(ids), atol=1e-5, rtol=1e-5)
    assert not any("quantized::embedding" in str(n.target) for n in lowered.graph.nodes)


def test_layers_made_by_hand() -> None:
    class ByHand(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nnq.Conv2d(3, 8, 3)
            weight = torch.quantize_per_tensor(torch.randn(8, 3, 3, 3), 0.02, 0, torch.qint8)
            self.conv.set_weight_bias(weight, torch.randn(8))
            self.conv.scale, self.conv.zero_point = 0.1, 40

        def forward(self, x: Tensor) -> Tensor:
            return self.conv(torch.quantize_per_tensor(x, 0.05, 64, torch.quint8)).dequantize()

    torch.manual_seed(0)
    model = ByHand().eval()
    _assert_equal(cpuaccel.quant.lower(model), model, m.image(5))


def test_optional_arguments_are_left_at_their_defaults() -> None:
    class Optional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = QuantWrapper(nn.Conv2d(3, 8, 3))

        def forward(self, x: Tensor, shift: Tensor | None = None, twice: bool = True) -> Tensor:
            x = self.net(x if shift is None else x + shift)
            return 2 * x if twice else x

    model = quantized(Optional(), m.image())
    lowered = cpuaccel.quant.lower(model)
    _assert_equal(lowered, model, m.image(5))
    with pytest.raises(TypeError):
        lowered(m.image(), m.image())


def test_hooks_of_a_layer_are_called() -> None:
    model: Any = stubbed(_BETWEEN["add"])
    called = []
    model.register_forward_hook(lambda *of: called.append("model"))
    lowered = cpuaccel.quant.lower(model)
    lowered(m.image())
    assert called == ["model"]
    model = stubbed(_BETWEEN["add"])
    model.first.register_forward_hook(lambda *of: called.append("layer"))
    lowered = cpuaccel.quant.lower(model)
    assert "first" in lowered.meta["cpuaccel_left"]
    lowered(m.image())
    assert called == ["model", "layer"]


class Outside(nn.Module):
    """Takes quantized tensors, so no part of it can be float."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nnq.Conv2d(3, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).dequantize()


def test_a_model_of_quantized_inputs_is_refused() -> None:
    with pytest.raises(
        TypeError, match="conv expects a quantized tensor, but its input is not quantized"
    ):
        cpuaccel.quant.lower(Outside().eval())


def test_a_model_in_training_mode_is_refused() -> None:
    model = stubbed(_BETWEEN["add"]).train()
    with pytest.raises(ValueError, match="training mode"):
        cpuaccel.quant.lower(model)


def test_a_model_with_nothing_quantized_is_refused() -> None:
    with pytest.raises(TypeError, match="got Linear with none"):
        cpuaccel.quant.lower(nn.Linear(2, 2).eval())


def test_a_lowered_copy_is_exported() -> None:
    model = stubbed(_BETWEEN["cat"])
    program = torch.export.export(cpuaccel.quant.lower(copy.deepcopy(model)), (m.image(),))
    torch.testing.assert_close(program.module()(m.image()), model(m.image()))
