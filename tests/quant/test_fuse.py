"""`cpuaccel.quant.fuse`, pattern by pattern: what is fused, and that no number changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from quant._engine import needs_front_end
from quant._fuse import CHANNELS, Lambda, after_conv, assert_fuses, conv, image, squeeze_excite

pytestmark = needs_front_end

# Name in the fused op: the module. Modules that torch has no quantized kernel for run in float.
QUANTIZED = {
    "relu6": nn.ReLU6,
    "hardtanh": lambda: nn.Hardtanh(-0.3, 0.4),
    "hardswish": nn.Hardswish,
    "hardsigmoid": nn.Hardsigmoid,
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "leakyrelu": lambda: nn.LeakyReLU(0.2),
    "elu": lambda: nn.ELU(0.7),
}
IN_FLOAT = {
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "mish": nn.Mish,
    "softplus": nn.Softplus,
    "celu": nn.CELU,
    "hardshrink": lambda: nn.Hardshrink(0.1),
}
activations = pytest.mark.parametrize(
    ("make", "name"),
    [
        *(pytest.param(make, name, id=name) for name, make in QUANTIZED.items()),
        *(
            pytest.param(make, f"dequantize + {name} + quantize", id=name)
            for name, make in IN_FLOAT.items()
        ),
    ],
)


@activations
def test_conv_and_activation(make: Callable[[], nn.Module], name: str) -> None:
    assert_fuses(lambda: after_conv(make()), image(), f"conv2d + {name}")


@activations
def test_linear_and_activation(make: Callable[[], nn.Module], name: str) -> None:
    def model() -> nn.Module:
        return nn.Sequential(nn.Linear(12, 20), make(), nn.Linear(20, 7))

    assert_fuses(model, torch.randn(5, 12), f"linear + {name}")


@pytest.mark.parametrize(
    ("function", "names"),
    [
        pytest.param(F.relu6, "relu6", id="relu6"),
        pytest.param(lambda x: F.relu6(x, inplace=True), "relu6", id="in place"),
        pytest.param(torch.sigmoid, "sigmoid", id="sigmoid"),
        pytest.param(lambda x: x.sigmoid(), "sigmoid", id="method"),
        pytest.param(lambda x: x.clamp(-0.5, 0.5), "clamp", id="clamp"),
        pytest.param(F.silu, "dequantize + silu + quantize", id="silu"),
        pytest.param(lambda x: x * torch.sigmoid(x), "sigmoid + mul", id="by hand: silu"),
        pytest.param(
            lambda x: x * (F.relu6(x + 3.0) / 6.0),
            "add + relu6 + dequantize + truediv + quantize + mul",
            id="by hand: hardswish",
        ),
        pytest.param(lambda x: F.relu6(torch.sigmoid(x)), "sigmoid + relu6", id="two"),
        pytest.param(
            lambda x: F.hardswish(F.gelu(F.silu(x))),
            "dequantize + silu + gelu + quantize + hardswish",
            id="three",
        ),
        pytest.param(
            lambda x: torch.exp(-torch.abs(x)), "dequantize + abs + neg + exp + quantize", id="exp"
        ),
    ],
)
def test_functions_of_one_tensor(function: Callable[[Tensor], Tensor], names: str) -> None:
    assert_fuses(lambda: after_conv(Lambda(function)), image(), f"conv2d + {names}")


class _Functional(nn.Module):
    """Functional layers with the model's own parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(CHANNELS, 3, 3, 3) * 0.2)
        self.bias = nn.Parameter(torch.randn(CHANNELS))
        self.second = nn.Parameter(torch.randn(6, CHANNELS) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu6(F.conv2d(x, self.weight, self.bias, [2, 2], [1, 1], [1, 1], 1))
        x = x.mean([2, 3])
        return torch.sigmoid(F.linear(x, self.second))


def test_functional_layers() -> None:
    fused = assert_fuses(_Functional, image(), "conv2d + relu6", "linear + sigmoid")
    assert not [name for name in vars(fused) if name.startswith("_packed_weight")]


def test_transposed_convolution() -> None:
    def model() -> nn.Module:
        return nn.Sequential(nn.ConvTranspose2d(3, 8, 3, stride=2), nn.Hardswish(), conv())

    assert_fuses(model, image(), "conv_transpose2d + hardswish")


def test_a_layer_with_relu() -> None:
    assert_fuses(lambda: after_conv(nn.ReLU(), nn.Sigmoid()), image(), "conv2d_relu + sigmoid")


def test_depthwise() -> None:
    def model() -> nn.Module:
        return nn.Sequential(
            conv(source=3), nn.ReLU6(), nn.Conv2d(8, 8, 3, groups=8), nn.ReLU6(), conv(kernel=1)
        )

    assert_fuses(model, image(), "conv2d + relu6", "conv2d + relu6")


def test_other_dimensions_keep_a_table_of_their_own() -> None:
    """One-dimensional convolutions have no fused op; a float chain after one is still a table."""

    def model() -> nn.Module:
        return nn.Sequential(nn.Conv1d(3, 6, 3), nn.SiLU(), nn.Conv1d(6, 4, 3))

    assert_fuses(model, torch.randn(2, 3, 11), "dequantize + silu + quantize")


class _Residual(nn.Module):
    def __init__(self, last: Callable[[Tensor], Tensor], middle: nn.Module | None = None) -> None:
        super().__init__()
        self.first, self.second, self.third = conv(source=3), conv(), conv(kernel=1)
        self.middle, self.last = middle or nn.Identity(), Lambda(last)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.first(x))
        return self.third(self.last(self.middle(self.second(x)) + x))


@pytest.mark.parametrize(
    ("last", "middle", "name"),
    [
        (lambda x: x, None, "conv2d + add"),
        (F.relu, None, "conv2d + add_relu"),
        (lambda x: x, nn.ReLU6(inplace=True), "conv2d + relu6 + add"),
        (lambda x: x, nn.SiLU(), "conv2d + dequantize + silu + quantize + add"),
    ],
    ids=["add", "add_relu", "relu6 + add", "silu + add"],
)
def test_sum_with_a_shortcut(last: Callable, middle: nn.Module | None, name: str) -> None:
    assert_fuses(lambda: _Residual(last, middle), image(), name)


def test_table_after_a_sum() -> None:
    chain = "dequantize + silu + quantize"
    assert_fuses(lambda: _Residual(F.silu), image(), "conv2d + add", chain)


class _Branches(nn.Module):
    """Two convolutions, joined by `join`."""

    def __init__(self, join: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.stem, self.left, self.right = conv(source=3), conv(), conv(kernel=1)
        self.join, self.last = join, conv(kernel=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        return self.last(self.join(self.left(x), self.right(x)))


@pytest.mark.parametrize(
    ("join", "name"),
    [
        (lambda a, b: a + b, "conv2d + add"),
        (lambda a, b: b + a, "conv2d + add"),
        (lambda a, b: F.relu(torch.add(a, b)), "conv2d + add_relu"),
        (lambda a, b: a * b, "conv2d + mul"),
        (lambda a, b: F.relu(torch.mul(a, b)), "conv2d + mul_relu"),
        (lambda a, b: F.hardswish(a) * torch.sigmoid(b), "conv2d + sigmoid + mul"),
    ],
    ids=["add", "other order", "add_relu", "mul", "mul_relu", "gate"],
)
def test_two_branches(join: Callable[[Tensor, Tensor], Tensor], name: str) -> None:
    others = ["conv2d + hardswish"] if "sigmoid" in name else []
    assert_fuses(lambda: _Branches(join), image(), name, *others)


class _LinearSum(nn.Module):
    def __init__(self, times: bool) -> None:
        super().__init__()
        self.first, self.second, self.times = nn.Linear(12, 12), nn.Linear(12, 12), times

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        y = self.second(x)
        return x * y if self.times else x + y


@pytest.mark.parametrize("times", [False, True])
def test_linear_and_binary_op(times: bool) -> None:
    name = f"linear + {'mul' if times else 'add'}"
    assert_fuses(lambda: _LinearSum(times), torch.randn(4, 12), name)


class _SqueezeExcite(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = conv(source=3), conv(kernel=1)
        self.reduce, self.expand = conv(4, kernel=1), conv(source=4, kernel=1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.hardswish(self.first(x))
        return self.last(squeeze_excite(x, self.reduce, self.expand))


def test_squeeze_and_excite() -> None:
    names = ("conv2d + hardswish", "conv2d + sigmoid + mul")
    assert_fuses(_SqueezeExcite, image(), *names)


def test_broadcast_sum() -> None:
    """Shapes are not in the graph: if broadcasting is needed, the fused module runs two ops."""

    class Broadcast(_SqueezeExcite):
        def forward(self, x: Tensor) -> Tensor:
            x = self.first(x)
            return self.last(x + self.expand(F.relu(self.reduce(x.mean([2, 3], keepdim=True)))))

    assert_fuses(Broadcast, image(), "conv2d + add")


class _Moved(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor], features: int) -> None:
        super().__init__()
        self.conv, self.function = conv(source=3), Lambda(function)
        self.linear = nn.Linear(features, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.function(F.relu(self.conv(x))))


@pytest.mark.parametrize(
    ("function", "features", "names"),
    [
        pytest.param(
            lambda x: F.dropout(F.adaptive_avg_pool2d(x, 1).flatten(1), 0.5, False), 8,
            ["dequantize + quantize"], id="flatten, dropout",
        ),
        pytest.param(lambda x: F.silu(x.permute(0, 2, 3, 1)), 8, ["dequantize + silu + quantize"],
                     id="permute, then silu"),
        pytest.param(lambda x: F.silu(x).permute(0, 2, 3, 1), 8,
                     ["conv2d_relu + dequantize + silu + quantize"], id="silu, then permute"),
        pytest.param(lambda x: x.chunk(2, 1)[1].flatten(1), 324, ["dequantize + quantize"],
                     id="chunk"),
    ],
)  # fmt: skip
def test_what_moves_stays_quantized(
    function: Callable[[Tensor], Tensor], features: int, names: list[str]
) -> None:
    fused = assert_fuses(lambda: _Moved(function, features), image(), *names)
    methods = [node.target for node in fused.graph.nodes if node.op == "call_method"]
    assert methods.count("dequantize") == 1, "only the result of the model"
    assert not [m for m in fused.modules() if isinstance(m, nn.Dropout)]


def test_modules_that_go_leave_nothing() -> None:
    def model() -> nn.Module:
        return nn.Sequential(conv(source=3), nn.ReLU6(), nn.Dropout(), conv(), nn.SiLU(), conv())

    chain = "conv2d + dequantize + silu + quantize"
    fused = assert_fuses(model, image(), "conv2d + relu6", chain)
    kinds = [type(m).__name__ for m in fused.modules()]
    assert not {"ReLU6", "Dropout", "SiLU"} & set(kinds)
    names = [name for name, _ in fused.named_buffers()]
    assert not [name for name in names if "4_scale" in name or "4_zero_point" in name]
