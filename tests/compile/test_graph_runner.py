"""A captured graph runs without torch's wrappers: same results, still visible to torch's modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from compile._compiled import Lambda, needs_onednn
from cpuaccel.compile.capture.capture import Capture, capture

pytestmark = needs_onednn


def _net(**kwargs: Any) -> nn.Module:
    torch.manual_seed(0)
    of: Callable[..., Any] = kwargs.pop("of", lambda self, x: self.conv(x).relu())
    return Lambda(of, conv=nn.Conv2d(3, 8, 3)).eval()


def _x(seed: int = 0) -> Tensor:
    return torch.randn(2, 3, 9, 9, generator=torch.Generator().manual_seed(seed))


def _captured(net: nn.Module, *args: Any) -> Capture:
    with torch.no_grad():
        made = capture(net, args, {})
    assert made.run is not made.graph
    return made


@pytest.mark.parametrize(
    "of",
    [
        lambda self, x: self.conv(x),
        lambda self, x: (self.conv(x), x + 1),
        lambda self, x: [self.conv(x), x],
        lambda self, x: {"a": self.conv(x), "b": (x.sum(), None, 3)},
        lambda self, x: None if self.conv(x) is x else (self.conv(x), {}),
    ],
    ids=("tensor", "tuple", "list", "nested", "empty"),
)
def test_results_have_the_models_structure(of: Callable[..., Any]) -> None:
    net = _net(of=of)
    made = _captured(net, _x())
    with torch.no_grad():
        torch.testing.assert_close(made.run(_x(1)), net(_x(1)), atol=1e-5, rtol=1e-4)
        assert type(made.run(_x(1))) is type(net(_x(1)))


def test_nested_arguments() -> None:
    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)

        def forward(self, pair: list[Tensor], *, by: float, more: Tensor) -> Tensor:
            return self.conv(pair[0] + by * pair[1]) + more

    net = Nested().eval()
    with torch.no_grad():
        made = capture(net, ([_x(), _x(1)],), {"more": torch.ones(1), "by": 2.0})
        expected = net([_x(2), _x(3)], by=2.0, more=torch.zeros(1))
        for keywords in ({"more": torch.zeros(1), "by": 2.0}, {"by": 2.0, "more": torch.zeros(1)}):
            got = made.run([_x(2), _x(3)], **keywords)
            torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-4)


def test_buffers_are_written() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.calls.add_(1)
            return self.conv(x) * self.calls

    net = Counting().eval()
    made = _captured(net, _x())
    with torch.no_grad():
        net.calls.zero_()
        first, second = made.run(_x()), made.run(_x())
        assert net.calls == 2
        torch.testing.assert_close(second, 2 * first)


def test_weights_may_change() -> None:
    net: Any = _net()
    made = _captured(net, _x())
    with torch.no_grad():
        made.run(_x())
        net.conv.weight.mul_(2)
        torch.testing.assert_close(made.run(_x()), net(_x()), atol=1e-5, rtol=1e-4)
        net.conv.weight.data = torch.randn_like(net.conv.weight)
        torch.testing.assert_close(made.run(_x()), net(_x()), atol=1e-5, rtol=1e-4)


def test_who_looks_on_sees_the_region() -> None:
    seen: list[str] = []

    class Functions(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    class Dispatches(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    made = _captured(_net().requires_grad_(False), _x())
    with torch.no_grad():
        for mode in (Functions(), Dispatches()):
            seen.clear()
            with mode:
                made.run(_x())
            assert "cpuaccel.graph_region.default" in seen, mode
        traced = torch.jit.trace(made.run, (_x(),))
        assert "cpuaccel::graph_region" in str(traced.graph)
        torch.testing.assert_close(traced(_x(1)), made.run(_x(1)))


def test_transforms_and_tangents_are_not_passed_by() -> None:
    made = _captured(_net().requires_grad_(False), _x())
    x, direction = _x(1), _x(2)
    with torch.no_grad():
        both = torch.func.vmap(made.run)(torch.stack([x, direction]))
        for found, each in zip(both, (x, direction), strict=True):
            torch.testing.assert_close(found, made.run(each))
        _, expected = torch.func.jvp(made.graph, (x,), (direction,))
        assert expected.abs().max() > 0
        torch.testing.assert_close(torch.func.jvp(made.run, (x,), (direction,))[1], expected)
        with forward_ad.dual_level():
            result = made.run(forward_ad.make_dual(x, direction))
            torch.testing.assert_close(forward_ad.unpack_dual(result).tangent, expected)

    def squares(run: Any) -> Any:
        return torch.func.grad(lambda z: run(z).square().sum())(x)

    torch.testing.assert_close(squares(made.run), squares(made.graph), rtol=1e-4, atol=1e-5)


def test_gradients_are_not_lost_in_silence() -> None:
    made = _captured(_net(), _x())
    by_torch = made.graph(_x().requires_grad_())
    ours = made.run(_x().requires_grad_())
    assert ours.requires_grad == by_torch.requires_grad
