"""Which ops run together in fp32: partitions are asserted, and the numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graph._compiled import Lambda, needs_onednn, randomized, seen

pytestmark = needs_onednn


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def _image(channels: int = 16, size: int = 12) -> Tensor:
    return torch.randn(2, channels, size, size)


def _conv(**options: Any) -> nn.Conv2d:
    return nn.Conv2d(16, 16, 3, **{"padding": 1, **options})


UNARY: list[tuple[str, Callable[[Tensor], Tensor], tuple[str, ...]]] = [
    ("relu", F.relu, ("ReLU",)),
    ("relu6", F.relu6, ("Clamp",)),
    ("hardtanh", lambda x: F.hardtanh(x, -0.5, 0.75), ("Clamp",)),
    ("clamp_min", lambda x: x.clamp_min(0.1), ("Clamp",)),
    ("sigmoid", torch.sigmoid, ("Sigmoid",)),
    ("tanh", torch.tanh, ("Tanh",)),
    ("gelu", F.gelu, ("GELU",)),
    ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), ("GELUTanh",)),
    ("silu", F.silu, ("Sigmoid", "Multiply")),
    ("hardswish", F.hardswish, ("HardSwish",)),
    ("hardsigmoid", F.hardsigmoid, ("HardSigmoid",)),
    ("leaky_relu", lambda x: F.leaky_relu(x, 0.2), ("LeakyReLU",)),
    ("elu", lambda x: F.elu(x, 0.7), ("Elu",)),
    ("abs", torch.abs, ("Abs",)),
    ("mish", F.mish, ("Mish",)),
]


@pytest.mark.parametrize(
    ("function", "kinds"), [row[1:] for row in UNARY], ids=[row[0] for row in UNARY]
)
def test_a_function_runs_with_the_convolution_before_it(
    function: Callable[[Tensor], Tensor], kinds: tuple[str, ...]
) -> None:
    model = Lambda(lambda self, x: function(self.conv(x)), conv=_conv())
    assert seen(model, _image()).kinds() == [("Convolution", *kinds)]


@pytest.mark.parametrize(
    ("function", "kinds"), [row[1:] for row in UNARY], ids=[row[0] for row in UNARY]
)
def test_a_function_runs_with_the_product_before_it(
    function: Callable[[Tensor], Tensor], kinds: tuple[str, ...]
) -> None:
    model = Lambda(lambda self, x: function(self.linear(x)), linear=nn.Linear(24, 40))
    assert seen(model, torch.randn(5, 24)).kinds() == [("MatMul", *kinds)]


CONVOLUTIONS: list[tuple[str, nn.Module, tuple[int, ...]]] = [
    ("1d", nn.Conv1d(8, 16, 3, padding=1), (2, 8, 20)),
    ("3d", nn.Conv3d(4, 8, 3, padding=1), (2, 4, 6, 7, 8)),
    ("1x1", nn.Conv2d(16, 32, 1), (2, 16, 9, 9)),
    ("strided", nn.Conv2d(16, 32, 3, stride=2, padding=1), (2, 16, 9, 9)),
    ("dilated", nn.Conv2d(16, 16, 3, dilation=2, padding=2), (2, 16, 11, 11)),
    ("grouped", nn.Conv2d(32, 32, 3, groups=4, padding=1), (2, 32, 9, 9)),
    ("depthwise", nn.Conv2d(32, 32, 3, groups=32, padding=1), (2, 32, 9, 9)),
    ("stem", nn.Conv2d(3, 16, 7, stride=2, padding=3), (1, 3, 33, 33)),
    ("rectangular", nn.Conv2d(16, 8, (1, 5), padding=(0, 2)), (1, 16, 7, 9)),
    ("no bias", nn.Conv2d(16, 8, 3, bias=False), (1, 16, 7, 9)),
    ("one pixel", nn.Conv2d(16, 8, 1), (1, 16, 1, 1)),
]


@pytest.mark.parametrize(
    ("conv", "shape"), [row[1:] for row in CONVOLUTIONS], ids=[row[0] for row in CONVOLUTIONS]
)
@pytest.mark.parametrize("channels_last", [False, True])
def test_convolutions(conv: nn.Module, shape: tuple[int, ...], channels_last: bool) -> None:
    x = torch.randn(shape)
    if channels_last:
        if x.dim() == 3:
            pytest.skip("torch has no such layout of three dimensions")
        formats = {4: torch.channels_last, 5: torch.channels_last_3d}
        x = x.contiguous(memory_format=formats[x.dim()])
    model = Lambda(lambda self, x: F.relu(self.conv(x)), conv=conv)
    assert seen(model, x).kinds() == [("Convolution", "ReLU")]


def test_transposed_convolution() -> None:
    model = Lambda(
        lambda self, x: F.relu(self.conv(x)),
        conv=nn.ConvTranspose2d(16, 8, 3, stride=2, padding=1, output_padding=1),
    )
    assert seen(model, _image()).kinds() == [("ConvTranspose", "ReLU")]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("groups", [1, 16])
def test_a_batch_norm_is_folded_into_the_convolution(bias: bool, groups: int) -> None:
    model = randomized(
        Lambda(
            lambda self, x: F.relu(self.norm(self.conv(x))),
            conv=_conv(bias=bias, groups=groups),
            norm=nn.BatchNorm2d(16),
        )
    )
    assert seen(model, _image()).kinds() == [("Convolution", "ReLU")]


def test_a_residual_is_added_in_place() -> None:
    def block(self: Any, x: Tensor) -> Tensor:
        y = F.relu(self.first(x))
        return F.relu(self.third(F.relu(self.second(y))) + y)

    model = Lambda(block, first=_conv(), second=_conv(), third=_conv())
    layer = ("Convolution", "ReLU")
    assert seen(model, _image()).kinds() == [layer, layer, ("Convolution", "Add", "ReLU")]


def test_a_residual_that_is_read_again_is_not_written_over() -> None:
    def block(self: Any, x: Tensor) -> Tensor:
        y = F.relu(self.first(x))
        z = self.second(y) + y
        return self.third(z) + y

    model = Lambda(block, first=_conv(), second=_conv(), third=_conv())
    assert ("Convolution", "Add") in seen(model, _image()).kinds()


def test_a_residual_is_added_to_what_is_returned_as_it_is_computed() -> None:
    def block(self: Any, x: Tensor) -> Tensor:
        y = F.relu(self.first(x))
        return self.third(F.relu(self.second(y))) + y

    model = Lambda(block, first=_conv(), second=_conv(), third=_conv())
    image = _image().contiguous(memory_format=torch.channels_last)
    assert ("Convolution", "Add") in seen(model, image).kinds()


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (torch.add, "Add"),
        (torch.sub, "Subtract"),
        (torch.mul, "Multiply"),
        (torch.div, "Divide"),
        (torch.maximum, "Maximum"),
        (torch.minimum, "Minimum"),
    ],
)
@pytest.mark.parametrize("shape", [(2, 16, 12, 12), (1, 16, 1, 1), (16, 1, 1)])
def test_operations_on_two_run_with_the_convolution(
    function: Callable[[Tensor, Tensor], Tensor], kind: str, shape: tuple[int, ...]
) -> None:
    other = torch.rand(shape) + 0.5
    model = Lambda(lambda self, x, y: function(self.conv(x), y), conv=_conv())
    assert seen(model, _image(), other).kinds() == [("Convolution", kind)]


def test_squeeze_and_excite_is_one_region() -> None:
    def block(self: Any, x: Tensor) -> Tensor:
        x = F.relu(self.conv(x))
        gate = F.hardsigmoid(self.up(F.relu(self.down(F.adaptive_avg_pool2d(x, 1)))))
        return self.last(gate * x)

    model = Lambda(
        block, conv=_conv(), down=nn.Conv2d(16, 4, 1), up=nn.Conv2d(4, 16, 1), last=_conv()
    )
    found = seen(model, _image())
    assert len(found.regions) == 1
    assert ("AvgPool",) in found.kinds()


POOLS: list[tuple[str, Callable[[Tensor], Tensor], str]] = [
    ("max", lambda x: F.max_pool2d(x, 3, 2, 1), "MaxPool"),
    ("max ceil", lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), "MaxPool"),
    ("avg", lambda x: F.avg_pool2d(x, 2), "AvgPool"),
    ("avg padded", lambda x: F.avg_pool2d(x, 3, 1, 1), "AvgPool"),
    (
        "avg padding out",
        lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False),
        "AvgPool",
    ),
    ("global", lambda x: F.adaptive_avg_pool2d(x, 1), "AvgPool"),
    ("adaptive", lambda x: F.adaptive_avg_pool2d(x, 4), "AvgPool"),
    ("mean", lambda x: x.mean((2, 3), keepdim=True), "AvgPool"),
]


@pytest.mark.parametrize(
    ("pool", "kind"), [row[1:] for row in POOLS], ids=[row[0] for row in POOLS]
)
def test_pools_between_convolutions(pool: Callable[[Tensor], Tensor], kind: str) -> None:
    model = Lambda(
        lambda self, x: self.last(pool(self.conv(x))), conv=_conv(), last=nn.Conv2d(16, 8, 1)
    )
    found = seen(model, _image())
    assert (kind,) in found.kinds()
    assert len(found.regions) == 1


def test_cat_between_convolutions() -> None:
    model = Lambda(
        lambda self, x: self.last(torch.cat([self.a(x), self.b(x), x], 1)),
        a=_conv(),
        b=nn.Conv2d(16, 8, 1),
        last=nn.Conv2d(40, 8, 1),
    )
    found = seen(model, _image())
    assert ("Concat",) in found.kinds()
    assert len(found.regions) == 1


def test_channel_shuffle_between_convolutions() -> None:
    def block(self: Any, x: Tensor) -> Tensor:
        a, b = self.conv(x).chunk(2, 1)
        return self.last(F.channel_shuffle(torch.cat([F.relu(self.part(a)), b], 1), 2))

    model = Lambda(block, conv=_conv(), part=nn.Conv2d(8, 8, 1), last=_conv())
    found = seen(model, _image())
    assert len(found.regions) == 1


def test_batch_norm_before_a_convolution() -> None:
    model = randomized(
        Lambda(
            lambda self, x: self.conv(F.relu(self.norm(self.first(x) + x))),
            first=_conv(),
            norm=nn.BatchNorm2d(16),
            conv=_conv(),
        )
    )
    assert any("BatchNormInference" in kinds for kinds in seen(model, _image()).kinds())


def test_a_classifier_is_one_region() -> None:
    model = Lambda(
        lambda self, x: self.linear(torch.flatten(F.adaptive_avg_pool2d(self.conv(x), 1), 1)),
        conv=_conv(),
        linear=nn.Linear(16, 10),
    )
    found = seen(model, _image())
    assert len(found.regions) == 1
    assert found.left == ()


def test_products_of_two_activations() -> None:
    model = Lambda(lambda self, x, y: torch.bmm(x, y.transpose(1, 2)))
    assert seen(model, torch.randn(3, 5, 8), torch.randn(3, 7, 8)).kinds() == [("MatMul",)]


def test_nothing_for_onednn_is_left_to_inductor_and_said() -> None:
    found = seen(Lambda(lambda self, x: torch.cumsum(F.relu(x), 1)), torch.randn(3, 5))
    assert found.regions == ()
    assert [left.op for left in found.left] == ["relu.default"]


@pytest.mark.parametrize("shape", [(24,), (5, 24), (2, 5, 24), (2, 3, 5, 24)])
def test_linear_layers_of_any_dimensions(shape: tuple[int, ...]) -> None:
    model = Lambda(
        lambda self, x: self.down(F.gelu(self.up(x))),
        up=nn.Linear(24, 40),
        down=nn.Linear(40, 24),
    )
    assert seen(model, torch.randn(shape)).kinds()[-1][0] == "MatMul"


def test_a_linear_layer_and_its_residual() -> None:
    model = Lambda(
        lambda self, x: self.down(F.gelu(self.up(x))) + x,
        up=nn.Linear(24, 40),
        down=nn.Linear(40, 24),
    )
    found = seen(model, torch.randn(2, 5, 24))
    assert found.kinds() == [("MatMul", "GELU"), ("MatMul", "Add")]
    assert len(found.regions) == 1


def test_the_other_gelu_is_never_the_librarys() -> None:
    def block(self: Any, x: Tensor) -> Tensor:
        y = self.a(x)
        return self.b(F.gelu(y, approximate="tanh")) + self.c(y)

    model = Lambda(block, a=_conv(), b=_conv(), c=_conv())
    found = seen(model, 3 * _image(), atol=1e-5)
    assert all("GELUTanh" not in kinds for kinds in found.kinds())
    assert any("behind a layer" in left.reason for left in found.left)
