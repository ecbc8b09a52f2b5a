"""Transformers: attention and the ops around it in one region, of any length; bf16: test_bf16."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cpuaccel
from compile._compiled import Lambda, needs_onednn, seen
from compile._transformers import HEADS, WIDTH, Attention, Layer, kinds_of, needs_attention
from cpuaccel.compile.common import report

pytestmark = [needs_onednn, needs_attention]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def test_attention_is_in_the_region_of_its_projections() -> None:
    found = seen(Attention(), torch.randn(2, 20, WIDTH))
    assert kinds_of(found) == {("MatMul",): 4, ("attention",): 1}
    assert len(found.regions) == 1
    assert found.left == ()


@pytest.mark.parametrize("norm_first", [False, True])
def test_layers_of_an_encoder_are_one_region(norm_first: bool) -> None:
    found = seen(nn.Sequential(Layer(norm_first), Layer(norm_first)), torch.randn(1, 20, WIDTH))
    assert len(found.regions) == 1
    kinds = kinds_of(found)
    assert kinds[("attention",)] == 2
    assert kinds[("MatMul", "GELU")] == 2
    assert kinds[("MatMul", "Add")] == 4
    assert kinds[("LayerNorm",)] == 3  # the last one is Inductor's
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
    assert kinds_of(found)[("attention",)] == 2
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
    assert kinds_of(found)[("attention",)] == 1


@pytest.mark.parametrize("options", [{"is_causal": True}, {"scale": 0.5}])
def test_attention_with(options: dict[str, Any]) -> None:
    assert kinds_of(seen(Attention(**options), torch.randn(2, 20, WIDTH)))[("attention",)] == 1


def test_attention_of_heads_in_image_layout() -> None:
    def attend(self: Any, x: Tensor) -> Tensor:
        heads = self.first(x)  # image layout: the heads are contiguous
        return self.last(F.scaled_dot_product_attention(heads, heads, heads))

    model = Lambda(attend, first=nn.Conv2d(HEADS, HEADS, 1), last=nn.Conv2d(HEADS, HEADS, 1))
    found = seen(model, torch.randn(2, HEADS, 20, 16))
    assert kinds_of(found) == {("Convolution",): 2, ("attention",): 1}


@pytest.mark.parametrize("batch", [1, 2])
def test_torchs_own_layer_whose_projections_are_one_product(batch: int) -> None:
    model = Lambda(
        lambda self, x: x + self.attention(x, x, x, need_weights=False)[0],
        attention=nn.MultiheadAttention(WIDTH, HEADS, batch_first=True),
    )
    found = seen(model, torch.randn(batch, 20, WIDTH))
    assert kinds_of(found)[("attention",)] == 1
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
    assert kinds_of(found)[("attention",)] == 2
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
    assert kinds_of(found)[("attention",)] == 1


def test_few_queries_are_taken() -> None:
    found = seen(Attention(), torch.randn(2, 5, WIDTH))
    assert kinds_of(found)[("attention",)] == 1


def test_fallbacks_are_reported() -> None:
    alone = seen(
        Lambda(lambda self, x: F.scaled_dot_product_attention(x, x, x)), torch.randn(1, 2, 9, 16)
    )
    assert [left.reason for left in alone.left] == ["attention alone: not measured"]


@pytest.mark.parametrize("norm_first", [False, True])
def test_optimized_attention_is_not_computed_beside_its_region(norm_first: bool) -> None:
    model, x = Layer(norm_first).eval(), torch.randn(2, 16, WIDTH)
    optimized = cpuaccel.optimize(model, (x,))
    with torch.no_grad():
        with torch.profiler.profile() as profile:
            result = optimized(x)
        expected = model(x)
    ran = {event.key for event in profile.key_averages()}
    assert any("graph_region" in name for name in ran), ran
    # Ops whose results only the attention outside of the region would read.
    assert not [name for name in ran if "addmm" in name or "flash_attention" in name], ran
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)


def test_a_weight_that_torch_repeats_is_one_matrix() -> None:
    """The input is stored by batches and read by words, so torch expands the weight."""
    torch.manual_seed(0)
    model = nn.MultiheadAttention(32, 2, batch_first=True).eval()
    x = torch.randn(3, 5, 32)
    call = Lambda(lambda self, x: x + self.layer(x, x, x, need_weights=False)[0], layer=model)
    with torch.no_grad():
        optimized = cpuaccel.optimize(call.eval(), (x,), time_budget=0)
        torch.testing.assert_close(optimized(x), call(x))
        (plan,) = cpuaccel.explain(optimized, (x,)).plans
    products = [step.sizes for step in plan.steps if step.kinds.startswith("MatMul")]
    assert len(products) >= 2
    assert not any("* 5x" in sizes for sizes in products), products
