"""`cpuaccel.quant.lower`: no quantized tensor remains, and every value is unchanged."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.ao.quantization import (
    QConfigMapping,
    default_dynamic_qconfig,
    float16_dynamic_qconfig,
    float_qparams_weight_only_qconfig,
    get_default_qconfig_mapping,
)
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

import cpuaccel
from quant._engine import needs_front_end, needs_plugin, running
from quant._fuse import CHANNELS, Lambda, after_conv, conv, image, quantized
from quant._lowered import NothingQuantized, assert_close
from quant._models import quiet, seeded
from quant._saved import through_file

pytestmark = needs_plugin


_EXACT = "cpuaccel"
"""The provider whose sums are exact on every CPU; the others may saturate beyond 7 bits."""


class _Two(nn.Module):
    """A function of two layers' results."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.first, self.second = conv(source=3), conv(source=3, kernel=1)
        self.last = conv(kernel=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.function(self.first(x), self.second(x)))


def _assert_lowers(model: nn.Module, x: Tensor, *, left: bool = False) -> nn.Module:
    """No quantized tensor remains, and values are equal except for a quantum here and there."""
    lowered = cpuaccel.quant.lower(model)
    assert isinstance(lowered, torch.fx.GraphModule)
    assert bool(lowered.meta["cpuaccel_left"]) == left
    for seed in range(3):
        y = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed))
        expected = model(y)
        with NothingQuantized():
            found = lowered(y)
        assert_close(found, expected)
    return lowered


_AFTER = {
    "relu": nn.ReLU,
    "relu in place": lambda: nn.ReLU(inplace=True),
    "relu6": nn.ReLU6,
    "hardtanh": lambda: nn.Hardtanh(-0.3, 0.4),
    "hardswish": nn.Hardswish,
    "hardsigmoid": nn.Hardsigmoid,
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "leaky_relu": lambda: nn.LeakyReLU(0.2),
    "elu": lambda: nn.ELU(0.7),
    "softmax": lambda: nn.Softmax(1),
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "dropout": nn.Dropout,
    "identity": nn.Identity,
    "max_pool": lambda: nn.MaxPool2d(2),
    "avg_pool": lambda: nn.AvgPool2d(3, 2, 1),
    "adaptive_avg_pool": lambda: nn.AdaptiveAvgPool2d(2),
    "instance_norm": lambda: nn.InstanceNorm2d(CHANNELS, affine=True),
    "layer_norm": lambda: nn.LayerNorm(9),
    "group_norm": lambda: nn.GroupNorm(2, CHANNELS),
    "upsample": lambda: nn.Upsample(scale_factor=2),
    "channel_shuffle": lambda: nn.ChannelShuffle(2),
}


_ROUNDED_BY_TORCH = ("hardsigmoid", "multiply by less than 0")
"""Without the front end torch's kernels run the model, and round these otherwise."""


def _named(names: Iterable[str]) -> pytest.MarkDecorator:
    """A case for each name."""
    return pytest.mark.parametrize(
        "name",
        [
            pytest.param(name, marks=needs_front_end if name in _ROUNDED_BY_TORCH else ())
            for name in names
        ],
    )


@_named(_AFTER)
def test_after_a_convolution(name: str) -> None:
    with torch.no_grad(), running(_EXACT):
        _assert_lowers(quantized(lambda: after_conv(_AFTER[name]()), image()), image())


def test_prelu() -> None:
    """torch 2.13's kernel is wrong for a weight of one element, so the float model decides."""

    def make() -> nn.Module:
        return after_conv(nn.PReLU())

    with torch.no_grad(), running("auto"):
        expected = seeded(make)(image())
        found = cpuaccel.quant.lower(quantized(make, image()))(image())
    assert (found - expected).norm() <= 0.03 * expected.norm()


_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "relu_": torch.relu_,
    "relu method": lambda x: x.relu_(),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "sigmoid": torch.sigmoid,
    "mean": lambda x: x.mean((2, 3), keepdim=True),
    "interpolate": lambda x: F.interpolate(x, size=(5, 5), mode="nearest"),
    "max_pool": lambda x: F.max_pool2d(x, 3, 2, 1),
    "chunk": lambda x: torch.cat([torch.chunk(x, 2, 1)[i] for i in (1, 0)], 1),
    "split": lambda x: torch.cat([x.split(4, 1)[i] for i in (1, 0)], 1),
    "shape": lambda x: x.view(x.shape[0], x.size(1), -1).unsqueeze(-1),
    "permute": lambda x: x.permute(0, 1, 3, 2).contiguous(),
    "transpose": lambda x: x.transpose(2, 3),
    "slice": lambda x: x[:, :, 1:],
    "repeat": lambda x: x.repeat(1, 1, 2, 1),
    "stack": lambda x: torch.stack([x, x], 2).flatten(2, 3),
    "square by hand": lambda x: x * x,
    "add a number": lambda x: x + 0.3,
    "add a large number": lambda x: x + 40.0,
    "take a large number": lambda x: x + -40.0,
    "multiply": lambda x: x * 1.7,
    "multiply by less than 0": lambda x: x * -0.7,
    "multiply by 0": lambda x: x * 0.0 + 1.0,
    "hardswish by hand": lambda x: x * (F.relu6(x + 3.0) / 6.0),
}


@_named(_FUNCTIONS)
def test_functions(name: str) -> None:
    def make() -> nn.Module:
        return after_conv(Lambda(_FUNCTIONS[name]))

    with torch.no_grad(), running(_EXACT):
        _assert_lowers(quantized(make, image()), image())


def test_bilinear() -> None:
    """torch's quint8 kernel truncates where cpuaccel's rounds, which adds half a quantum."""

    def make() -> nn.Module:
        return after_conv(Lambda(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")))

    with torch.no_grad(), running("auto"):
        model = quantized(make, image())
        expected, found = model(image()), cpuaccel.quant.lower(model)(image())
    assert (found - expected).abs().max() <= 2.01 * _last_scale(model)


def _last_scale(model: nn.Module) -> float:
    scales = [float(m.scale) for m in model.modules() if hasattr(m, "zero_point")]
    return scales[-1]


_OF_TWO: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda a, b: a + b,
    "add, relu": lambda a, b: F.relu(a + b),
    "mul": lambda a, b: a * b,
    "mul, relu": lambda a, b: F.relu(a * b),
    "matmul": torch.matmul,
    "cat": lambda a, b: torch.cat([a[:, :4], b[:, 4:]], 1),
    "in place": lambda a, b: a.relu_() + a * b,
}


@pytest.mark.parametrize("name", _OF_TWO)
def test_functions_of_two(name: str) -> None:
    with torch.no_grad(), running(_EXACT):
        _assert_lowers(quantized(lambda: _Two(_OF_TWO[name]), image()), image())


_LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(12, 9), (4, 12)),
    "linear, relu": (lambda: nn.Sequential(nn.Linear(12, 9), nn.ReLU()), (4, 5, 12)),
    "no bias": (lambda: nn.Linear(12, 9, bias=False), (4, 12)),
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1), (2, 4, 9)),
    "conv1d, relu": (lambda: nn.Sequential(nn.Conv1d(4, 6, 3), nn.ReLU()), (2, 4, 9)),
    "conv2d": (lambda: nn.Conv2d(4, 6, (3, 2), (1, 2), (1, 0), (2, 1)), (2, 4, 9, 8)),
    "grouped": (lambda: nn.Conv2d(8, 6, 3, groups=2), (2, 8, 9, 8)),
    "depthwise": (lambda: nn.Conv2d(8, 8, 3, groups=8), (2, 8, 9, 8)),
    "reflected": (lambda: nn.Conv2d(4, 6, 3, padding=(1, 2), padding_mode="reflect"), (2, 4, 9, 8)),
    "conv3d": (lambda: nn.Conv3d(2, 4, 3, padding=1), (1, 2, 5, 5, 5)),
    "conv3d, relu": (lambda: nn.Sequential(nn.Conv3d(2, 4, 3), nn.ReLU()), (1, 2, 5, 5, 5)),
    "batch norm": (lambda: nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6)), (2, 4, 9, 8)),
}


_NOT_TRACED: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "transposed 1d": (lambda: nn.ConvTranspose1d(4, 6, 3, 2), (2, 4, 9)),
    "transposed 2d": (lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, 1), (2, 4, 9, 8)),
    "instance norm 1d": (lambda: nn.InstanceNorm1d(4, affine=True), (2, 4, 9)),
    "instance norm 3d": (lambda: nn.InstanceNorm3d(4, affine=True), (2, 4, 3, 5, 5)),
}
"""Modules that FX traces as a module inside a model, but not alone."""


@pytest.mark.parametrize(
    "name",
    [
        # torch's own kernel of such a layer is wrong.
        pytest.param(name, marks=needs_front_end if name.startswith("transposed") else ())
        for name in _NOT_TRACED
    ],
)
def test_layers_in_a_model(name: str) -> None:
    make, shape = _NOT_TRACED[name]
    with torch.no_grad(), running("auto"):
        model = quantized(lambda: nn.Sequential(nn.Identity(), make()), torch.randn(shape))
        _assert_lowers(model, torch.randn(shape))


@pytest.mark.parametrize("name", _LAYERS)
def test_layers(name: str) -> None:
    make, shape = _LAYERS[name]
    with torch.no_grad(), running("auto"):
        _assert_lowers(quantized(make, torch.randn(shape)), torch.randn(shape))


@pytest.mark.parametrize("kind", ["2d", "2d, relu", "3d", "3d, relu"])
def test_batch_norm_alone(kind: str) -> None:
    cls: type[nn.Module] = nn.BatchNorm2d if kind.startswith("2d") else nn.BatchNorm3d
    shape = (2, 8, 5, 5) if kind.startswith("2d") else (2, 8, 3, 5, 5)

    def make() -> nn.Module:
        norm = cls(8)
        norm.running_mean.uniform_(-1, 1)
        norm.running_var.uniform_(0.5, 2)
        return nn.Sequential(norm, *([nn.ReLU()] if "relu" in kind else []))

    with torch.no_grad(), running("auto"):
        _assert_lowers(quantized(make, torch.randn(shape)), torch.randn(shape))


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("config", [default_dynamic_qconfig, float16_dynamic_qconfig])
def test_dynamic_linear(config: Any, relu: bool) -> None:
    x = torch.randn(5, 12)
    with torch.no_grad(), running("auto"), quiet():
        layers = [nn.Linear(12, 9), *([nn.ReLU()] if relu else []), nn.Linear(9, 4)]
        model = seeded(lambda: nn.Sequential(*layers))
        prepared = prepare_fx(model.eval(), QConfigMapping().set_global(config), (x,))
        converted = convert_fx(prepared)
        lowered = _assert_lowers(converted, x)
        torch.testing.assert_close(lowered(x), converted(x), rtol=1e-3, atol=2e-3)


def test_functional_dynamic_linear() -> None:
    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.randn(9, 12)), nn.Parameter(torch.randn(9))

        def forward(self, x: Tensor) -> Tensor:
            return F.relu(F.linear(x, self.weight, self.bias))

    x = torch.randn(5, 12)
    with torch.no_grad(), running("auto"), quiet():
        mapping = QConfigMapping().set_global(default_dynamic_qconfig)
        converted = convert_fx(prepare_fx(seeded(Functional).eval(), mapping, (x,)))
        _assert_lowers(converted, x)


def test_functional_layers() -> None:
    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8, 3, 3, 3))
            self.matrix, self.bias = nn.Parameter(torch.randn(5, 8)), nn.Parameter(torch.randn(5))

        def forward(self, x: Tensor) -> Tensor:
            x = F.relu(F.conv2d(x, self.weight, None, (2, 2), (1, 1), (1, 1), 1))
            return F.linear(x.mean((2, 3)), self.matrix, self.bias)

    with torch.no_grad(), running("auto"):
        _assert_lowers(quantized(Functional, image()), image())


def test_embedding() -> None:
    class Embeds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.linear = nn.Embedding(20, 16), nn.Linear(16, 4)

        def forward(self, ids: Tensor) -> Tensor:
            return self.linear(self.table(ids))

    ids = torch.randint(0, 20, (3, 7))
    mapping = QConfigMapping().set_object_type(nn.Embedding, float_qparams_weight_only_qconfig)
    with torch.no_grad(), running("auto"), quiet():
        converted = convert_fx(prepare_fx(seeded(Embeds).eval(), mapping, (ids,)))
        lowered = cpuaccel.quant.lower(converted)
        assert "Embedding" not in {type(m).__name__ for m in lowered.modules()}
        with NothingQuantized():
            torch.testing.assert_close(lowered(ids), converted(ids))


def test_lstm_stays_as_it_is() -> None:
    x = torch.randn(5, 2, 12)
    with torch.no_grad(), running("auto"), quiet():
        mapping = QConfigMapping().set_object_type(nn.LSTM, default_dynamic_qconfig)
        model = seeded(lambda: nn.Sequential(nn.LSTM(12, 10)))
        converted = convert_fx(prepare_fx(model.eval(), mapping, (x,)))
        lowered = cpuaccel.quant.lower(converted)
        torch.testing.assert_close(lowered(x), converted(x), rtol=0, atol=0)


def test_what_is_not_known_stays_quantized(caplog: pytest.LogCaptureFixture) -> None:
    """An unknown op on a quantized tensor still gets one, and is reported."""
    with torch.no_grad(), running("auto"):
        model = quantized(lambda: after_conv(nn.ReLU()), image())
        graph = model.graph
        last = next(node for node in graph.nodes if node.target == "2")
        with graph.inserting_before(last):
            sorted_ = graph.call_function(torch.sort, (last.args[0],))
            values = graph.call_function(torch.select, (sorted_, 0, 0))
            graph.erase_node(values)
            first = graph.call_method("unfold", (last.args[0], 2, 3, 3))
            back = graph.call_method("flatten", (first, 3))
        last.args = (back,)
        graph.erase_node(sorted_)
        model.recompile()
        lowered = cpuaccel.quant.lower(model)
        assert lowered.meta["cpuaccel_left"] == {"unfold": "unfold", "flatten": "flatten"}
        assert_close(lowered(image()), model(image()))


@pytest.mark.parametrize("fullgraph", ["aot_eager", "inductor"])
def test_compiles_without_a_break(fullgraph: str) -> None:
    def make() -> nn.Module:
        return nn.Sequential(conv(source=3), nn.Hardswish(), _Two(lambda a, b: F.relu(a + b)))

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.body = conv(3, 3), _Two(lambda a, b: F.relu(a + b))
            self.head = nn.Linear(CHANNELS, 5)

        def forward(self, x: Tensor) -> Tensor:
            x = self.body(F.hardswish(self.stem(x)))
            return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))

    with torch.no_grad(), running("auto"):
        model = quantized(Whole, image())
        lowered = cpuaccel.quant.lower(model)
        compiled = torch.compile(lowered, fullgraph=True, backend=fullgraph)
        assert_close(compiled(image()), model(image()))


def test_what_it_was_given_is_not_changed() -> None:
    with torch.no_grad(), running("auto"):
        model = quantized(lambda: after_conv(nn.Hardswish()), image())
        before, keys = model.code, list(model.state_dict())
        lowered = cpuaccel.quant.lower(model)
        assert (model.code, list(model.state_dict())) == (before, keys)
        assert_close(copy.deepcopy(lowered)(image()), model(image()))
        assert torch.equal(through_file(lowered)(image()), lowered(image()))


def test_parts_of_a_model() -> None:
    class Holder(nn.Module):
        def __init__(self, part: nn.Module) -> None:
            super().__init__()
            self.part, self.scale = part, nn.Parameter(torch.ones(1))

        def forward(self, x: Tensor) -> Tensor:
            return self.part(x) * self.scale

    with torch.no_grad(), running("auto"):
        model = Holder(quantized(lambda: after_conv(nn.ReLU()), image()))
        lowered = cpuaccel.quant.lower(model)
        assert type(lowered) is Holder
        with NothingQuantized():
            found = lowered(image())
        assert_close(found, model(image()))


def test_output_that_is_quantized_stays_so() -> None:
    from torch.ao.quantization.fx.custom_config import PrepareCustomConfig

    with torch.no_grad(), running("auto"), quiet():
        config = PrepareCustomConfig().set_output_quantized_indexes([0])
        mapping = get_default_qconfig_mapping("x86")
        float_model = seeded(lambda: after_conv(nn.ReLU())).eval()
        prepared = prepare_fx(float_model, mapping, (image(),), prepare_custom_config=config)
        prepared(image())
        model = convert_fx(prepared)
        expected, found = model(image()), cpuaccel.quant.lower(model)(image())
    assert expected.is_quantized
    assert found.is_quantized
    assert (found.q_scale(), found.q_zero_point()) == (expected.q_scale(), expected.q_zero_point())
    assert (found.int_repr().int() - expected.int_repr().int()).abs().max() <= 1


def test_clear_errors() -> None:
    with pytest.raises(TypeError, match=r"model: expected a torch.nn.Module, got int"):
        cpuaccel.quant.lower(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="got Linear with none"):
        cpuaccel.quant.lower(nn.Linear(2, 2))
    with running("auto"), quiet():
        mapping = get_default_qconfig_mapping("x86")
        prepared = prepare_fx(after_conv().eval(), mapping, (image(),))
        with pytest.raises(ValueError, match="prepared but not converted"):
            cpuaccel.quant.lower(prepared)
        model = quantized(after_conv, image())
        with pytest.raises(ValueError, match="training mode"):
            cpuaccel.quant.lower(model.train())
