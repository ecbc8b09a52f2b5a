"""Single ops: a layer of any geometry is a partition by itself; other single ops are fallbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from compile import _bf16
from compile._compiled import Lambda, needs_onednn, randomized
from compile._rewritten import check, rewritten

pytestmark = needs_onednn


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=str)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    """Each dtype of layers."""
    if request.param == torch.bfloat16:
        request.getfixturevalue("bf16")
    return request.param


def _alone(family: str) -> str:
    return f"{family} alone: not measured"


_ALONE = _alone("elementwise")
_NUMBER = "a number instead of a tensor"
_NEXT_TO_NONE = "alone: no other partition is next to it"
_IMAGE = (1, 32, 14, 14)


def test_in_a_process_of_its_own() -> None:
    _bf16.in_a_process_of_its_own(__file__)


LEFT: list[tuple[str, Callable[..., Tensor], list[tuple[int, ...]], list[str]]] = [
    ("relu", F.relu, [_IMAGE], [_ALONE]),
    ("gelu", F.gelu, [_IMAGE], [_ALONE]),
    ("max pool", lambda x: F.max_pool2d(x, 3, 2, 1), [_IMAGE], [_alone("pool")]),
    ("average pool", lambda x: F.avg_pool2d(x, 3, 2, 1), [_IMAGE], [_alone("pool")]),
    (
        "pool over all that there is",
        lambda x: F.avg_pool2d(x, (x.size(2), x.size(3)), count_include_pad=False),
        [(1, 100, 1, 1)],
        [_alone("pool")],
    ),
    (
        "layer norm",
        lambda x: F.layer_norm(x, (10,)),
        [(2, 5, 10, 10)],
        [_alone("layer_norm")],
    ),
    ("sum", lambda x, y: x + y, [_IMAGE, _IMAGE], [_ALONE]),
    ("sum, broadcast", lambda x, y: x + y, [(1, 1, 14, 14), _IMAGE], [_ALONE]),
    (
        "sum, a factor",
        lambda x, y: torch.add(x, y, alpha=2),
        [_IMAGE, _IMAGE],
        ["alpha is not 1, or rounding_mode"],
    ),
    ("sum of numbers", lambda x: 42 + x + 3.14, [(32, 32)], [_NEXT_TO_NONE, _NEXT_TO_NONE]),
    ("product", lambda x, y: x * y * 3, [_IMAGE, (14,)], [_NUMBER, _ALONE]),
    ("identity", lambda x: x * 1 + 0.0, [(32,)], [_NUMBER, _NUMBER]),
]


@pytest.mark.parametrize(
    ("function", "sizes", "reasons"), [row[1:] for row in LEFT], ids=[row[0] for row in LEFT]
)
def test_fallbacks_of_single_ops(
    function: Callable[..., Tensor],
    sizes: list[tuple[int, ...]],
    reasons: list[str],
    dtype: torch.dtype,
) -> None:
    model = Lambda(lambda self, *args: function(*args))
    found = check(model, *(torch.randn(each, dtype=dtype) for each in sizes))
    assert found.regions == ()
    assert [left.reason for left in found.left] == reasons


@pytest.mark.parametrize("relu", [False, True])
def test_a_norm_alone_is_a_fallback(dtype: torch.dtype, relu: bool) -> None:
    model = Lambda(
        lambda self, x: F.relu(self.norm(x)) if relu else self.norm(x), norm=nn.BatchNorm2d(32)
    )
    found = check(randomized(model).to(dtype), torch.randn(_IMAGE, dtype=dtype))
    assert found.regions == ()
    assert [left.reason for left in found.left] == [_ALONE] * (1 + relu)


@pytest.mark.parametrize("dim", range(-4, 4))
def test_softmax_alone_is_a_fallback(dtype: torch.dtype, dim: int) -> None:
    model = Lambda(lambda self, x: torch.softmax(x, dim))
    found = check(model, torch.randn(3, 4, 5, 6, dtype=dtype))
    assert found.regions == ()
    (left,) = found.left
    assert left.reason == _alone("softmax")


@pytest.mark.parametrize("sizes", [(3, 4, 5, 6), (8, 4, 7), (20, 9)])
def test_concatenations_alone_are_fallbacks(dtype: torch.dtype, sizes: tuple[int, ...]) -> None:
    x = torch.randn(sizes, dtype=dtype)
    for dim in range(len(sizes)):
        found = check(Lambda(lambda self, *args, dim=dim: torch.cat(args, dim)), x, x, x)
        assert found.regions == ()
        assert [left.reason for left in found.left] == [_ALONE]


def test_integers_are_fallbacks_without_a_reason() -> None:
    x = torch.tensor([32, 7])
    module, held, found = rewritten(Lambda(lambda self, x: x // 2), [x])
    torch.testing.assert_close(module(held, x), x // 2)
    assert found.regions == ()
    assert found.left == ()


@given(
    st.sampled_from([7, 8]),
    st.sampled_from([8, 15]),
    st.sampled_from([7, 16]),
    st.sampled_from([1, 3, (3, 1)]),
    st.sampled_from([0, 2, (1, 0)]),
    st.sampled_from([1, 2]),
    st.sampled_from([1, 2]),
    st.sampled_from([1, 2]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_convolutions(
    size: int,
    source: int,
    to: int,
    kernel: Any,
    padding: Any,
    stride: int,
    dilation: int,
    groups: int,
    bias: bool,
    channels_last: bool,
    bf16: bool,
) -> None:
    conv = nn.Conv2d(source * groups, to * groups, kernel, stride, padding, dilation, groups, bias)
    x = torch.randn(1, source * groups, size, size)
    if channels_last:
        x = x.contiguous(memory_format=torch.channels_last)
    if bf16 and _bf16.onednn_has_it():
        conv, x = conv.bfloat16(), x.bfloat16()
    assert check(Lambda(lambda self, x: self.a(x), a=conv), x).kinds() == [("Convolution",)]


@given(
    st.integers(15, 19),
    st.sampled_from([3, 4, 5]),
    st.integers(0, 2),
    st.sampled_from([1, 2, 4]),
    st.sampled_from(["max", "max, dilated", "average", "average inside"]),
    st.booleans(),
    st.booleans(),
)
def test_pools_between_layers(
    size: int, kernel: int, padding: int, stride: int, kind: str, ceil: bool, bf16: bool
) -> None:
    padding = min(padding, kernel // 2)

    def pool(x: Tensor) -> Tensor:
        if kind.startswith("max"):
            return F.max_pool2d(x, kernel, stride, padding, 1 + kind.endswith("dilated"), ceil)
        return F.avg_pool2d(x, kernel, stride, padding, ceil, kind == "average")

    model: nn.Module = Lambda(
        lambda self, x: self.b(pool(self.a(x))), a=nn.Conv2d(4, 4, 1), b=nn.Conv2d(4, 4, 1)
    )
    x = torch.randn(1, 4, size, size)
    if bf16 and _bf16.onednn_has_it():
        model, x = model.bfloat16(), x.bfloat16()
    found = check(model, x)
    name = "MaxPool" if kind.startswith("max") else "AvgPool"
    if not ceil:
        assert found.kinds() == [("Convolution",), (name,), ("Convolution",)]
    else:  # a fallback, with a reason, if oneDNN counts padding or windows differently
        left = [each.reason for each in found.left]
        assert ((name,) in found.kinds()) != bool(left)


@pytest.mark.parametrize("sizes", [(1, 16, 9, 9), (1, 1, 9, 9), (9,), (1,)])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("op", [torch.add, torch.mul])
def test_an_operand_that_is_broadcast(
    op: Callable[..., Tensor], sizes: tuple[int, ...], first: bool
) -> None:
    model = Lambda(
        lambda self, x, y: op(y, self.a(x)) if first else op(self.a(x), y),
        a=nn.Conv2d(16, 16, 3, padding=1),
    )
    found = check(model, torch.randn(1, 16, 9, 9), torch.randn(sizes))
    kind = "Add" if op is torch.add else "Multiply"
    assert found.kinds() == [("Convolution", kind)]


@pytest.mark.parametrize("sizes", [(5, 6), (1, 6), (5, 1), (1, 1)])
def test_a_matrix_that_is_added_to_a_product(dtype: torch.dtype, sizes: tuple[int, ...]) -> None:
    model = Lambda(lambda self, x, y, z: torch.addmm(z, x, y))
    inputs = (torch.randn(each, dtype=dtype) for each in ((5, 8), (8, 6), sizes))
    assert check(model, *inputs).kinds() == [("MatMul", "Add")]


FUNCTIONS = [torch.tanh, F.gelu, F.hardsigmoid, torch.exp, lambda y: F.relu(torch.tanh(y))]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("op", [torch.add, torch.sub])
@pytest.mark.parametrize("layer", [nn.Conv2d(4, 4, 1), nn.Linear(9, 9)], ids=["conv", "linear"])
def test_a_value_and_a_function_of_it(
    layer: nn.Module, op: Callable[..., Tensor], function: Callable[[Tensor], Tensor]
) -> None:
    """oneDNN fuses both to the layer and then cannot compile it; the layer must still be taken."""

    def of(self: Any, x: Tensor) -> Tensor:
        y = self.a(x)
        return self.b(op(function(y), y)) + self.b(op(y, function(y)))

    found = check(Lambda(of, a=layer, b=nn.Conv2d(4, 4, 1)), torch.randn(1, 4, 9, 9))
    assert {left.reason for left in found.left} == {"one operand is a function of the other"}
    first = "Convolution" if isinstance(layer, nn.Conv2d) else "MatMul"
    assert found.kinds()[0] == (first,)


def test_a_power_is_a_square_or_a_fallback() -> None:
    model = Lambda(lambda self, x: (self.a(x) ** 2, self.b(x) ** 3), a=_pointwise(), b=_pointwise())
    found = check(model, torch.randn(1, 4, 9, 9))
    assert found.kinds() == [("Convolution", "Square"), ("Convolution",)]
    assert [left.reason for left in found.left] == ["an exponent other than 2"]


def test_round() -> None:
    model = Lambda(lambda self, x: torch.round(self.a(x)), a=_pointwise())
    assert check(model, torch.randn(1, 4, 9, 9)).kinds() == [("Convolution", "Round")]


def _pointwise() -> nn.Module:
    return nn.Conv2d(4, 4, 1)
