"""Which ops run together in fp32: asserts partitions, and results against float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from compile import _blocks, _functions
from compile._compiled import Lambda, needs_onednn, randomized, seen
from compile._patterns import Partitions, Pattern, conv, each_of, image, of, partitions

pytestmark = needs_onednn


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def _image() -> Tensor:
    return torch.randn(image())


@each_of([*_functions.PATTERNS, *_blocks.PATTERNS], "floats")
def test_patterns(pattern: Pattern, kinds: Partitions) -> None:
    found = seen(randomized(pattern.make()), *pattern.inputs(), float64=True)
    assert of(found) == kinds
    assert len(found.regions) == 1


IN_PLACE: list[tuple[Callable[[Tensor], Tensor], str]] = [
    (torch.relu_, "ReLU"),
    (lambda x: F.leaky_relu(x, 0.2, inplace=True), "LeakyReLU"),
    (torch.sigmoid_, "Sigmoid"),
    (torch.square_, "Square"),
    (torch.abs_, "Abs"),
    (torch.exp_, "Exp"),
    (lambda x: F.hardswish(x, inplace=True), "HardSwish"),
    (torch.tanh_, "Tanh"),
    (lambda x: F.hardtanh(x, -0.5, 0.75, inplace=True), "Clamp"),
    (lambda x: F.silu(x, inplace=True), "Sigmoid+Multiply"),
    (lambda x: x.clamp_(0.1, 0.5), "Clamp"),
]


@pytest.mark.parametrize("channels_last", [False, True])
def test_functions_in_place(channels_last: bool) -> None:
    def chain(self: Any, x: Tensor) -> Tensor:
        for number, (function, _) in enumerate(IN_PLACE):
            x = function(getattr(self, f"layer{number}")(x))
        return x

    model = Lambda(chain, **{f"layer{number}": conv() for number in range(len(IN_PLACE))})
    x = _image()
    if channels_last:
        x = x.contiguous(memory_format=torch.channels_last)
    expected = " ".join(f"Convolution+{kinds}" for _, kinds in IN_PLACE)
    assert of(seen(model, x)) == partitions(expected)


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


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("groups", [1, 16])
def test_a_batch_norm_is_folded_into_the_convolution(bias: bool, groups: int) -> None:
    model = randomized(
        Lambda(
            lambda self, x: F.relu(self.norm(self.conv(x))),
            conv=conv(bias=bias, groups=groups),
            norm=nn.BatchNorm2d(16),
        )
    )
    assert seen(model, _image()).kinds() == [("Convolution", "ReLU")]


def test_a_residual_is_added_in_place() -> None:
    def block(self: Any, x: Tensor) -> Tensor:
        y = F.relu(self.first(x))
        return F.relu(self.third(F.relu(self.second(y))) + y)

    model = Lambda(block, first=conv(), second=conv(), third=conv())
    layer = ("Convolution", "ReLU")
    assert seen(model, _image()).kinds() == [layer, layer, ("Convolution", "Add", "ReLU")]


def test_a_residual_that_is_read_again_is_not_written_over() -> None:
    def block(self: Any, x: Tensor) -> Tensor:
        y = F.relu(self.first(x))
        z = self.second(y) + y
        return self.third(z) + y

    model = Lambda(block, first=conv(), second=conv(), third=conv())
    assert ("Convolution", "Add") in seen(model, _image()).kinds()


def test_a_residual_is_added_to_what_is_returned_as_it_is_computed() -> None:
    def block(self: Any, x: Tensor) -> Tensor:
        y = F.relu(self.first(x))
        return self.third(F.relu(self.second(y))) + y

    model = Lambda(block, first=conv(), second=conv(), third=conv())
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
    model = Lambda(lambda self, x, y: function(self.conv(x), y), conv=conv())
    assert seen(model, _image(), other).kinds() == [("Convolution", kind)]


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
        lambda self, x: self.last(pool(self.conv(x))), conv=conv(), last=nn.Conv2d(16, 8, 1)
    )
    found = seen(model, _image())
    assert (kind,) in found.kinds()
    assert len(found.regions) == 1


def test_products_of_two_activations() -> None:
    model = Lambda(lambda self, x, y: torch.bmm(x, y.transpose(1, 2)))
    assert seen(model, torch.randn(3, 5, 8), torch.randn(3, 7, 8)).kinds() == [("MatMul",)]


def test_unsupported_ops_run_on_inductor_and_are_reported() -> None:
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

    model = Lambda(block, a=conv(), b=conv(), c=conv())
    found = seen(model, 3 * _image(), atol=1e-5)
    assert all("GELUTanh" not in kinds for kinds in found.kinds())
    assert any("only as a post-op" in left.reason for left in found.left)
