"""F.interpolate between layers, and the reasons for variants that oneDNN lacks; bf16: test_bf16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cpuaccel
from compile._compiled import Lambda, needs_onednn, seen
from cpuaccel.compile.common import report

pytestmark = needs_onednn


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def between(**options: Any) -> nn.Module:
    """Return a model with this interpolation between convolutions."""
    return Lambda(
        lambda self, x: self.last(F.interpolate(F.relu(self.conv(x)), **options)),
        conv=nn.Conv2d(16, 16, 3, padding=1),
        last=nn.Conv2d(16, 8, 1),
    ).eval()


KINDS = [("Convolution", "ReLU"), ("Interpolate",), ("Convolution",)]

TAKEN: list[dict[str, Any]] = [
    {"scale_factor": 2},
    {"scale_factor": (3.0, 2.0)},
    {"size": (24, 36)},
    {"size": 24},
    {"scale_factor": 2, "mode": "bilinear"},
    {"scale_factor": (1.5, 0.5), "mode": "bilinear"},
    {"size": (17, 31), "mode": "bilinear"},
    {"size": (5, 12), "mode": "bilinear", "align_corners": False},
]


@pytest.mark.parametrize("options", TAKEN, ids=str)
def test_between_layers(options: dict[str, Any]) -> None:
    found = seen(between(**options), torch.randn(2, 16, 12, 12))
    assert found.kinds() == KINDS
    assert len(found.regions) == 1


LEFT: list[tuple[dict[str, Any], str]] = [
    ({"size": 17}, "nearest mode by a factor that is not an integer: oneDNN takes other pixels"),
    (
        {"scale_factor": 0.5},
        "nearest mode by a factor that is not an integer: oneDNN takes other pixels",
    ),
    (
        {"scale_factor": 2, "mode": "bilinear", "align_corners": True},
        "align_corners: oneDNN lacks it",
    ),
    ({"scale_factor": 1.3, "mode": "bilinear"}, "a scale other than the ratio of the sizes"),
]


@pytest.mark.parametrize(("options", "reason"), LEFT, ids=str)
def test_left_to_inductor(options: dict[str, Any], reason: str) -> None:
    found = seen(between(**options), torch.randn(2, 16, 12, 12))
    assert [(left.op, left.reason) for left in found.left] == [("cpuaccel.resize.default", reason)]
    assert found.kinds() == [KINDS[0], KINDS[2]]


@pytest.mark.parametrize(
    "options",
    [
        {"size": 9, "mode": "bicubic"},
        {"size": 9, "mode": "bilinear", "antialias": True},
        {"scale_factor": 1.3, "mode": "bilinear", "recompute_scale_factor": True},
        {"size": 9, "mode": "nearest-exact"},
    ],
    ids=str,
)
def test_other_modes_are_torchs(options: dict[str, Any]) -> None:
    kinds = seen(between(**options), torch.randn(2, 16, 12, 12)).kinds()
    assert KINDS[1] not in kinds
    assert KINDS[2] in kinds


def test_alone_it_is_a_fallback() -> None:
    model = Lambda(lambda self, x: F.interpolate(x, scale_factor=2))
    assert [left.op for left in seen(model, torch.randn(1, 4, 5, 5)).left] == [
        "cpuaccel.resize.default"
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"scale_factor": 2},
        {"scale_factor": 2, "mode": "bilinear"},
        {"size": (20, 30), "mode": "bilinear"},
    ],
    ids=str,
)
def test_images_of_any_size(options: dict[str, Any]) -> None:
    model = between(**options)
    torch._dynamo.reset()
    report.clear()
    compiled = torch.compile(model, backend="cpuaccel", fullgraph=True)
    with torch.no_grad():
        for size in (12, 17, 30):
            x = torch.randn(2, 16, size, 12)
            torch._dynamo.mark_dynamic(x, 2)
            torch.testing.assert_close(compiled(x), model(x), atol=1e-4, rtol=1e-3)
    (found,) = report.reports()
    assert found.kinds() == KINDS


def test_a_size_that_is_computed_is_torchs() -> None:
    def like(self: Any, x: Tensor, y: Tensor) -> Tensor:
        return self.last(F.interpolate(self.conv(x), size=y.shape[-2:]) + y)

    model = Lambda(like, conv=nn.Conv2d(16, 16, 1), last=nn.Conv2d(16, 8, 1)).eval()
    torch._dynamo.reset()
    report.clear()
    compiled = torch.compile(model, backend="cpuaccel", dynamic=True)
    with torch.no_grad():
        for size in (12, 17):
            x, y = torch.randn(2, 16, size, size), torch.randn(2, 16, 2 * size, 2 * size)
            torch.testing.assert_close(compiled(x, y), model(x, y), atol=1e-4, rtol=1e-3)
    assert KINDS[1] not in report.reports()[0].kinds()


def test_in_a_transform_it_is_torchs() -> None:
    def resize(x: Tensor) -> Tensor:
        return F.interpolate(x[None], scale_factor=2, mode="bilinear")[0]

    x = torch.randn(3, 4, 5, 5)
    torch._dynamo.reset()
    with torch.no_grad():
        compiled = torch.compile(torch.vmap(resize), backend="cpuaccel")
        torch.testing.assert_close(compiled(x), torch.vmap(resize)(x))


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_from_eager(mode: str) -> None:
    model, x = between(scale_factor=2, mode=mode), torch.randn(2, 16, 12, 12)
    optimized = cpuaccel.optimize(model, (x,))
    with torch.no_grad():
        torch.testing.assert_close(optimized(x), model(x), atol=1e-4, rtol=1e-3)
    assert optimized.reports[0].kinds() == KINDS


def test_the_op_passes_on_gradients_and_tangents() -> None:
    from cpuaccel._ops import resize as _resize  # noqa: F401  cpuaccel::resize

    x, direction = torch.randn(1, 2, 5, 5), torch.randn(1, 2, 5, 5)

    def op(x: Tensor) -> Tensor:
        result: Tensor = torch.ops.cpuaccel.resize(x, [8, 8], None, "bilinear", False)
        return result.square()

    def torchs(x: Tensor) -> Tensor:
        return F.interpolate(x, (8, 8), mode="bilinear").square()

    def gradient(f: Callable[[Tensor], Tensor]) -> Tensor:
        leaf = x.clone().requires_grad_()
        return torch.autograd.grad(f(leaf).sum(), leaf)[0]

    torch.testing.assert_close(gradient(op), gradient(torchs))
    found, expected = (torch.func.jvp(f, (x,), (direction,))[1] for f in (op, torchs))
    torch.testing.assert_close(found, expected)
