"""Transformers: attention and what is around it in one region, in fp32 and bf16, at any length."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cpuaccel
from cpuaccel import _native
from cpuaccel.graph import report
from graph._compiled import Lambda, needs_onednn, seen
from graph.test_bf16 import _has_bf16, _onednn_has_bf16

_module = _native.native()
_measured = _module is not None and _module.cpu_vendor() == "AuthenticAMD"

pytestmark = [
    needs_onednn,
    pytest.mark.skipif(not _measured, reason="attention was not measured on CPUs of this vendor"),
]

WIDTH, HEADS = 48, 3


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


class Attention(nn.Module):
    """Projections around attention."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.query, self.key, self.value, self.last = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.options = options

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attend to `x` itself, where `mask` says."""

        def heads(layer: nn.Module) -> Tensor:
            return layer(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)

        found = F.scaled_dot_product_attention(
            heads(self.query), heads(self.key), heads(self.value), attn_mask=mask, **self.options
        )
        return self.last(found.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """A layer of an encoder, with its norms behind, or before as in vision transformers."""

    def __init__(self, norm_first: bool) -> None:
        super().__init__()
        self.attention = Attention()
        self.up, self.down = nn.Linear(WIDTH, 80), nn.Linear(80, WIDTH)
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.norm_first = norm_first

    def forward(self, x: Tensor) -> Tensor:
        """Attend, and then compute each position by itself."""
        if self.norm_first:
            x = x + self.attention(self.first(x))
            return x + self.down(F.gelu(self.up(self.second(x))))
        x = self.first(x + self.attention(x))
        return self.second(x + self.down(F.gelu(self.up(x))))


def _kinds(found: report.Report) -> Counter[tuple[str, ...]]:
    """Return how often there is each partition that is no move."""
    return Counter(kinds for kinds in found.kinds() if kinds[0] not in ("view", "permute", "slice"))


def test_attention_is_in_the_region_of_its_projections() -> None:
    found = seen(Attention(), torch.randn(2, 20, WIDTH))
    assert _kinds(found) == {("MatMul",): 4, ("attention",): 1}
    assert len(found.regions) == 1
    assert found.left == ()


@pytest.mark.parametrize("norm_first", [False, True])
def test_layers_of_an_encoder_are_one_region(norm_first: bool) -> None:
    found = seen(nn.Sequential(Layer(norm_first), Layer(norm_first)), torch.randn(1, 20, WIDTH))
    assert len(found.regions) == 1
    kinds = _kinds(found)
    assert kinds[("attention",)] == 2
    assert kinds[("MatMul", "GELU")] == 2
    assert kinds[("MatMul", "Add")] == 4
    assert kinds[("LayerNorm",)] == 3  # the one at the end is Inductor's
    assert {left.op for left in found.left} == {"native_layer_norm.default"}


@pytest.mark.parametrize("norm_first", [False, True])
def test_any_length_runs_by_one_compiled_graph(norm_first: bool) -> None:
    model = nn.Sequential(Layer(norm_first), Layer(norm_first)).eval()
    torch._dynamo.reset()
    report.clear()
    compiled = torch.compile(model, backend="cpuaccel", fullgraph=True)
    with torch.no_grad():
        for length in (20, 33, 300, 8, 5):
            x = torch.randn(1, length, WIDTH)
            torch._dynamo.mark_dynamic(x, 1)
            torch.testing.assert_close(compiled(x), model(x), atol=1e-4, rtol=1e-3)
    (found,) = report.reports()
    assert _kinds(found)[("attention",)] == 2
    assert len(found.regions) == 1


MASKS = {
    "of the rows": (20, 20),
    "of each batch": (2, 1, 20, 20),
    "of the keys": (2, 1, 1, 20),
    "of each head": (1, HEADS, 20, 20),
}


@pytest.mark.parametrize("shape", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("kind", ["float", "bool"])
def test_masks(shape: tuple[int, ...], kind: str) -> None:
    mask = torch.randn(shape) if kind == "float" else torch.rand(shape) < 0.7
    found = seen(Attention(), torch.randn(2, 20, WIDTH), mask)
    assert _kinds(found)[("attention",)] == 1


@pytest.mark.parametrize("options", [{"is_causal": True}, {"scale": 0.5}])
def test_attention_with(options: dict[str, Any]) -> None:
    assert _kinds(seen(Attention(**options), torch.randn(2, 20, WIDTH)))[("attention",)] == 1


def test_queries_whose_elements_lie_apart() -> None:
    def attend(self: Any, x: Tensor) -> Tensor:
        heads = self.first(x)  # as images lie: the heads side by side
        return self.last(F.scaled_dot_product_attention(heads, heads, heads))

    model = Lambda(attend, first=nn.Conv2d(HEADS, HEADS, 1), last=nn.Conv2d(HEADS, HEADS, 1))
    found = seen(model, torch.randn(2, HEADS, 20, 16))
    assert _kinds(found) == {("Convolution",): 2, ("attention",): 1}


@pytest.mark.parametrize("batch", [1, 2])
def test_torchs_own_layer_whose_projections_are_one_product(batch: int) -> None:
    model = Lambda(
        lambda self, x: x + self.attention(x, x, x, need_weights=False)[0],
        attention=nn.MultiheadAttention(WIDTH, HEADS, batch_first=True),
    )
    found = seen(model, torch.randn(batch, 20, WIDTH))
    assert _kinds(found)[("attention",)] == 1
    assert len(found.regions) == 1


@pytest.mark.parametrize("place", [0, -1])
def test_one_place_between_layers(place: int) -> None:
    model = Lambda(
        lambda self, x: self.last(self.first(x)[:, place]),
        first=nn.Linear(WIDTH, WIDTH),
        last=nn.Linear(WIDTH, 8),
    )
    found = seen(model, torch.randn(2, 20, WIDTH))
    assert found.kinds() == [("MatMul",), ("slice",), ("view",), ("MatMul",)]


def test_optimize_takes_attention() -> None:
    model, x = nn.Sequential(Layer(False), Layer(True)).eval(), torch.randn(1, 20, WIDTH)
    optimized = cpuaccel.optimize(model, (x,))
    with torch.no_grad():
        torch.testing.assert_close(optimized(x), model(x), atol=1e-4, rtol=1e-3)
    (found,) = optimized.reports
    assert _kinds(found)[("attention",)] == 2
    assert len(found.regions) == 1


def test_keys_of_another_length() -> None:
    def attend(self: Any, x: Tensor, y: Tensor) -> Tensor:
        query, key = (
            layer(each).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for layer, each in ((self.query, x), (self.key, y))
        )
        found = F.scaled_dot_product_attention(query, key, key)
        return self.last(found.transpose(1, 2).flatten(2))

    layers = {name: nn.Linear(WIDTH, WIDTH) for name in ("query", "key", "last")}
    found = seen(Lambda(attend, **layers), torch.randn(2, 20, WIDTH), torch.randn(2, 31, WIDTH))
    assert _kinds(found)[("attention",)] == 1


def test_what_is_left_is_said() -> None:
    few = seen(Attention(), torch.randn(2, 5, WIDTH))
    assert [left.reason for left in few.left if "attention" in left.op] == ["fewer than 8 queries"]
    alone = seen(
        Lambda(lambda self, x: F.scaled_dot_product_attention(x, x, x)), torch.randn(1, 2, 9, 16)
    )
    assert [left.reason for left in alone.left] == ["alone: Inductor calls the same kernel"]


@pytest.mark.skipif(not _has_bf16, reason="oneDNN has no layers of bf16 for a CPU without them")
@pytest.mark.parametrize("length", ["static", "dynamic"])
def test_bf16(length: str) -> None:
    if not _onednn_has_bf16():
        pytest.skip("an ISA cap of an earlier test: oneDNN keeps the first that it met")
    model = nn.Sequential(Layer(False), Layer(True)).eval()
    torch._dynamo.reset()
    report.clear()
    with torch.no_grad():
        for size in (20, 45) if length == "dynamic" else (20,):
            x = torch.randn(1, size, WIDTH)
            exact = model.float()(x)
            model.bfloat16()
            if length == "dynamic":
                torch._dynamo.mark_dynamic(given := x.bfloat16(), 1)
            else:
                given = x.bfloat16()
            eager = model(given)
            found = torch.compile(model, backend="cpuaccel", fullgraph=True)(given)
            error, allowed = (float((each.float() - exact).norm()) for each in (found, eager))
            assert error <= 1.5 * allowed + 1e-3 * float(exact.norm())
    (one,) = report.reports()
    assert len(one.regions) == 1
    assert _kinds(one)[("attention",)] == 2
    assert _kinds(one)[("LayerNorm",)] == 4


@pytest.mark.skipif(not _has_bf16, reason="oneDNN has no layers of bf16 for a CPU without them")
def test_autocast() -> None:
    if not _onednn_has_bf16():
        pytest.skip("an ISA cap of an earlier test: oneDNN keeps the first that it met")
    model = Attention().eval()
    x = torch.randn(2, 20, WIDTH)
    torch._dynamo.reset()
    report.clear()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found = torch.compile(model, backend="cpuaccel", fullgraph=True)(x)
        torch.testing.assert_close(found, model(x), atol=2e-2, rtol=2e-2)
    (one,) = report.reports()
    assert _kinds(one) == {("MatMul",): 4, ("attention",): 1}
