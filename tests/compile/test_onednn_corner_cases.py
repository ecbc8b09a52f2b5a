"""Corner cases of oneDNN Graph: sizes, places and operands that random graphs found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cpuaccel
from compile._compiled import Lambda, needs_onednn, seen
from compile._rewritten import check
from cpuaccel.compile.partition import cost

pytestmark = needs_onednn


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("operand", [(5, 8), (5, 1), (8,), (1,), (3, 1, 1), (3, 5, 1), (3, 1, 8)])
@pytest.mark.parametrize("shape", [(3, 5, 6), (2, 3, 5, 6), (2, 1, 3, 5, 6)])
def test_an_operand_for_a_part_of_what_a_linear_layer_makes(
    operand: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    model = Lambda(lambda self, x, y: self.layer(x) * y, layer=nn.Linear(6, 8))
    found = check(model, torch.randn(shape), torch.randn(operand))
    if len(operand) == 1:
        assert found.kinds() == [("MatMul", "Multiply")]


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.max_pool2d(x, 2, 2, 1, ceil_mode=True),
        lambda x: F.max_pool2d(x, 1, 4, ceil_mode=True),
        lambda x: F.avg_pool2d(x, 2, 2, 1, ceil_mode=True, count_include_pad=False),
    ],
)
@pytest.mark.parametrize("size", [5, 6, 7])
def test_a_window_that_starts_behind_the_image(pool: Callable[[Tensor], Tensor], size: int) -> None:
    model = Lambda(
        lambda self, x: self.b(pool(self.a(x))), a=nn.Conv2d(4, 4, 1), b=nn.Conv2d(4, 4, 1)
    )
    check(model, torch.randn(1, 4, size, size))


def test_such_windows_at_sizes_that_come_later() -> None:
    model = Lambda(
        lambda self, x: self.b(F.max_pool2d(self.a(x), 2, 2, 1, ceil_mode=True)),
        a=nn.Conv2d(4, 4, 1),
        b=nn.Conv2d(4, 4, 1),
    ).eval()
    with torch.no_grad():
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="cpuaccel", dynamic=True)
        for size in (6, 7, 8):
            x = torch.randn(1, 4, size, size + 3)
            torch.testing.assert_close(compiled(x), model(x), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("function", [torch.add, torch.sub, torch.mul, torch.maximum])
def test_a_value_and_itself(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    def of(self: Any, x: Tensor) -> Tensor:
        y = F.avg_pool2d(self.a(x), 2)
        return self.b(function(y, y))

    check(Lambda(of, a=nn.Conv2d(4, 4, 1), b=nn.Conv2d(4, 4, 1)), torch.randn(2, 4, 6, 6))


def test_a_norm_over_several_dimensions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "choose", lambda _: cost.Choice(True, "all"))
    found = check(Lambda(lambda self, x: F.layer_norm(x, (5, 8))), torch.randn(3, 5, 8))
    assert [left.reason for left in found.left] == ["layer norm over several dimensions"]


def test_a_value_that_is_read_through_a_view_of_another_region() -> None:
    """The product reads the base of the view, and the view is read too."""

    def of(self: Any, x: Tensor) -> Tensor:
        y = F.relu(self.a(x))
        turned = y.permute(0, 2, 1)
        wide = F.relu(self.b(turned))
        return torch.bmm(torch.cumsum(wide, 1), turned)

    model = Lambda(of, a=nn.Linear(6, 5), b=nn.Linear(4, 5))
    check(model, torch.randn(2, 4, 6))


def test_a_value_that_is_read_as_it_is_and_turned() -> None:
    def of(self: Any, x: Tensor, y: Tensor) -> Tensor:
        turned = torch.sin(self.a(x)).t()
        return torch.mm(y, turned) + self.b(x) + turned

    model = Lambda(of, a=nn.Linear(5, 5), b=nn.Linear(5, 5))
    check(model, torch.randn(5, 5), torch.randn(5, 5))


@pytest.mark.parametrize(
    "view",
    [
        lambda y: y.view(y.shape[0], -1),
        lambda y: y.flatten(2),
        lambda y: y.view(-1),
        lambda y: y.unfold(1, 3, 2),
    ],
)
def test_views_of_tensors_with_other_strides(view: Callable[[Tensor], Tensor]) -> None:
    """A convolution returns images in channels_last, where eager's are contiguous."""
    model = Lambda(lambda self, x: torch.cumsum(view(self.conv(x)), 0), conv=nn.Conv2d(3, 8, 3))
    x = torch.randn(2, 3, 9, 9)
    assert seen(model, x).kinds() == [("Convolution",)]
    optimized = cpuaccel.optimize(model, (x,))
    cpuaccel.reset_stats()
    with torch.no_grad():
        torch.testing.assert_close(optimized(x), model(x), atol=1e-5, rtol=1e-4)
    assert cpuaccel.stats()["calls"]["graph_region.cpuaccel"] == 1


@pytest.mark.parametrize(
    "between", [lambda y: y, F.relu, lambda y: y.permute(0, 2, 1, 3), lambda y: F.relu(y) + 1]
)
def test_as_strided_reads_memory_by_offset(between: Callable[[Tensor], Tensor]) -> None:
    def of(self: Any, x: Tensor) -> Tensor:
        y = between(self.b(self.a(x)))
        return torch.as_strided(y, (2, 3, 5), (7, 2, 1), 3) + 1

    model = Lambda(of, a=nn.Conv2d(3, 8, 1), b=nn.Conv2d(8, 8, 3))
    x = torch.randn(2, 3, 9, 9)
    found = seen(model, x)
    assert found.regions == ()
    assert [left.op for left in found.left] == ["as_strided.default"]
    optimized = cpuaccel.optimize(model, (x,))
    with torch.no_grad():
        torch.testing.assert_close(optimized(x), model(x), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "part", [lambda h: h[:, 0], lambda h: h[:, 1:3].contiguous(), lambda h: h.chunk(2, -1)[1]]
)
def test_a_norm_of_a_part(part: Callable[[Tensor], Tensor]) -> None:
    """oneDNN reads rows as if there were no gaps between them, so Inductor runs such norms."""

    def of(self: Any, x: Tensor) -> Tensor:
        y = part(x + self.a(x))
        return self.b(F.layer_norm(y, y.shape[-1:])[..., :8])

    found = seen(Lambda(of, a=nn.Linear(16, 16), b=nn.Linear(8, 4)), torch.randn(2, 5, 16))
    assert ("MatMul", "Add") in found.kinds()
    assert not any("LayerNorm" in kinds for kinds in found.kinds())


def test_layers_around_a_group_norm() -> None:
    """torch gives the sizes of its statistics by as_strided, which is a reshape there."""

    def of(self: Any, x: Tensor) -> Tensor:
        return self.b(F.silu(self.norm(self.a(x))))

    model = Lambda(of, a=nn.Conv2d(3, 8, 3), norm=nn.GroupNorm(2, 8), b=nn.Conv2d(8, 4, 3))
    nn.init.uniform_(model.norm.weight, 0.5, 1.5)
    nn.init.normal_(model.norm.bias)
    found = seen(model, torch.randn(2, 3, 9, 9))
    assert found.kinds().count(("Convolution",)) == 2
    assert not any(left.op == "as_strided.default" for left in found.left)


def test_a_sum_of_two_layers_that_is_returned() -> None:
    """The sum must not be added to old contents of the result's memory."""
    layers = {"a": nn.Conv2d(8, 16, 1), "b": nn.Conv2d(4, 16, 1)}
    model = Lambda(lambda self, x, y: self.a(x) + self.b(y), **layers)
    inputs = [
        torch.randn(2, channels, 9, 9).contiguous(memory_format=torch.channels_last)
        for channels in (8, 4)
    ]
    optimized = cpuaccel.optimize(model.eval(), tuple(inputs))
    with torch.no_grad():
        expected = model(*inputs)
        for _ in range(4):
            kept = [torch.full_like(expected, 1e9) for _ in range(9)]
            del kept
            torch.testing.assert_close(optimized(*inputs), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("step", [1, 7])
def test_a_part_of_size_one_of_something_larger(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The part has the strides of the larger tensor."""
    monkeypatch.setattr(cost, "choose", lambda _: cost.Choice(True, "all"))
    x, y = (
        torch.randn(1, 5, size, 2).contiguous(memory_format=torch.channels_last) for size in (1, 7)
    )
    check(Lambda(lambda self, x, y: x + y), x, y[:, :, ::step][:, :, :1])


def test_the_first_of_a_batch() -> None:
    model = Lambda(
        lambda self, x: self.conv(torch.clamp_min(x[:1] / x[1:2].exp(), -0.25)),
        conv=nn.Conv1d(2, 8, 1, stride=2, dilation=2, groups=2),
    )
    check(model, torch.randn(3, 2, 2))
