"""int8 attention: two products of quantized values and the softmax between are one step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cpuaccel
from compile import _pt2e
from compile._compiled import Lambda, needs_onednn, seen
from compile._pt2e import quantize
from cpuaccel.compile.common import report

pytestmark = needs_onednn

HEADS, WIDTH, ROWS = 3, 24, 20
OF_LAYERS = ["quantize", "q_linear", "q_linear", "q_linear", "q_attention", "q_linear"]

Scores = Callable[[Tensor, tuple[Tensor, ...]], Tensor]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def _plain(scores: Tensor, _: tuple[Tensor, ...]) -> Tensor:
    return torch.softmax(scores / math.sqrt(WIDTH // HEADS), -1)


def _attend(self: Any, x: Tensor, *masks: Tensor) -> Tensor:
    heads = [
        around(linear(x).view(*x.shape[:-1], HEADS, -1).transpose(-2, -3))
        for around, linear in ((self.around_q, self.q), (nn.Identity(), self.k))
    ]
    query, key = heads
    keys = self.around_k(key.transpose(-1, -2))
    values = self.around_v(self.v(x).view(*x.shape[:-1], HEADS, -1).transpose(-2, -3))
    weights = self.around_weights(self.scores(torch.matmul(query, keys), masks))
    result = torch.matmul(weights, values).transpose(-2, -3).reshape(x.shape)
    return self.out(result)


def attention(scores: Scores = _plain, **others: nn.Module) -> Lambda:
    """Return attention with quantized operands; `others` may replace some of them."""
    made: dict[str, nn.Module] = {
        **{name: nn.Linear(WIDTH, WIDTH) for name in ("q", "k", "v", "out")},
        **{f"around_{name}": nn.Identity() for name in ("q", "k", "v", "weights")},
        **others,
    }
    model = Lambda(_attend, **made)
    model.scores = scores  # type: ignore[assignment]
    return model.eval()


def kinds_of(model: nn.Module, *args: Tensor, atol: float = 0.02) -> list[str]:
    """Quantize and optimize a model, compare, and return its steps without views and copies."""
    with torch.no_grad():
        quantized = _pt2e.quantized(model, *args)
        expected = quantized(*args)
        report.clear()
        found = cpuaccel.optimize(quantized, args)(*args)
    torch.testing.assert_close(found, expected, atol=atol, rtol=0)
    (one,) = report.reports()
    kinds = [kind for kinds in one.kinds() for kind in kinds]
    return [kind for kind in kinds if kind not in ("view", "permute")]


def test_a_whole_layer() -> None:
    assert kinds_of(attention(), torch.randn(2, ROWS, WIDTH)) == OF_LAYERS


def test_without_a_batch() -> None:
    assert kinds_of(attention(), torch.randn(ROWS, WIDTH)) == OF_LAYERS


SCORES: dict[str, Scores] = {
    "times a number": lambda scores, _: torch.softmax(scores * 0.35, -1),
    "as they are": lambda scores, _: torch.softmax(scores, -1),
    "scaled twice": lambda scores, _: torch.softmax(scores * 0.7 / 2, -1),
    "softmax of a type": lambda scores, _: torch.softmax(scores * 0.35, -1, torch.float32),
}


@pytest.mark.parametrize("scores", SCORES.values(), ids=SCORES)
def test_scores(scores: Scores) -> None:
    assert kinds_of(attention(scores), torch.randn(2, ROWS, WIDTH)) == OF_LAYERS


MASKS = {
    "of the rows": (ROWS, ROWS),
    "of each batch": (2, 1, ROWS, ROWS),
    "of the keys": (2, 1, 1, ROWS),
    "of each head": (1, HEADS, ROWS, ROWS),
}


@pytest.mark.parametrize("shape", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("first", [False, True], ids=["second addend", "first addend"])
def test_masks(shape: tuple[int, ...], first: bool) -> None:
    def scores(of: Tensor, masks: tuple[Tensor, ...]) -> Tensor:
        scaled = of * 0.35
        return torch.softmax(masks[0] + scaled if first else scaled + masks[0], -1)

    x = torch.randn(2, ROWS, WIDTH)
    mask = torch.where(torch.rand(shape) < 0.3, -1e4, torch.randn(shape))
    assert kinds_of(attention(scores), x, mask) == OF_LAYERS


def test_result_of_floats() -> None:
    found = kinds_of(attention(out=nn.Tanh()), torch.randn(2, ROWS, WIDTH))
    assert found[:5] == OF_LAYERS[:5]


def _of_one_input(_: Any, x: Tensor) -> Tensor:
    heads = x.view(1, -1, HEADS, WIDTH // HEADS).transpose(1, 2)
    query, keys = quantize(heads, 0.02, 120), quantize(heads.transpose(2, 3), 0.025, 130)
    weights = quantize(torch.softmax(torch.matmul(query, keys) * 0.35, -1), 1 / 255, 0)
    result = torch.matmul(weights, quantize(heads, 0.02, 128))
    return quantize(result.transpose(1, 2).reshape(x.shape), 0.01, 128)


def test_compiled() -> None:
    found = seen(Lambda(_of_one_input), torch.randn(1, ROWS, WIDTH), atol=0.02)
    assert [kind for kinds in found.kinds() for kind in kinds].count("q_attention") == 1


def test_any_length_runs_by_one_compiled_graph() -> None:
    model = Lambda(_of_one_input).eval()
    torch._dynamo.reset()
    report.clear()
    compiled = torch.compile(model, backend="cpuaccel", fullgraph=True)
    with torch.no_grad():
        for length in (20, 33, 60, 7):
            x = torch.randn(1, length, WIDTH)
            torch._dynamo.mark_dynamic(x, 1)
            torch.testing.assert_close(compiled(x), model(x), atol=0.02, rtol=0)
    (one,) = report.reports()
    assert [kind for kinds in one.kinds() for kind in kinds].count("q_attention") == 1


def test_matrices_that_become_rows_of_floats() -> None:
    def attend(self: Any, x: Tensor) -> Tensor:
        query, keys = quantize(x, 0.02, 128), quantize(x.mT, 0.025, 130)
        weights = quantize(torch.softmax(torch.bmm(query, keys), -1), 1 / 255, 0)
        result = torch.bmm(weights, quantize(x, 0.02, 120))
        return result.view(-1, WIDTH).exp()

    model, x = Lambda(attend).eval(), torch.randn(2, ROWS, WIDTH)
    with torch.no_grad():
        report.clear()
        found = cpuaccel.optimize(model, (x,))(x)
        torch.testing.assert_close(found, model(x), atol=0.1, rtol=0.02)
    (one,) = report.reports()
    assert "q_attention" in [kind for kinds in one.kinds() for kind in kinds]


def test_attention_of_floats_by_hand_is_none() -> None:
    """Without quantizers the products stay float."""
    floats = nn.ReLU()
    for name in ("around_q", "around_k", "around_v", "around_weights"):
        found = kinds_of(attention(**{name: floats}), torch.randn(2, ROWS, WIDTH))
        assert "q_attention" not in found


LEFT: dict[str, Scores] = {
    "softmax of queries": lambda scores, _: torch.softmax(scores, -2),
    "a mask of floats that is no addend": lambda scores, masks: torch.softmax(
        scores * torch.ones(ROWS), -1
    ),
    "what is no softmax": lambda scores, _: torch.sigmoid(scores),
    "a sum with itself": lambda scores, _: torch.softmax(scores + scores, -1),
}


@pytest.mark.parametrize("scores", LEFT.values(), ids=LEFT)
def test_what_is_left(scores: Scores) -> None:
    assert "q_attention" not in kinds_of(attention(scores), torch.randn(2, ROWS, WIDTH))


def test_weights_that_somebody_else_reads() -> None:
    def attend(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        query, values = self.q(x), self.v(x)
        weights = self.around_weights(torch.softmax(torch.bmm(query, values.mT), -1))
        return torch.bmm(weights, values), weights

    layers = {name: nn.Identity() for name in ("q", "v", "around_weights")}
    model = Lambda(attend, **layers).eval()
    x = torch.randn(2, ROWS, WIDTH)
    with torch.no_grad():
        quantized = _pt2e.quantized(model, x)
        report.clear()
        found = cpuaccel.optimize(quantized, (x,))(x)
    torch.testing.assert_close(found, quantized(x), atol=0.02, rtol=0)
    assert "q_attention" not in str(report.reports())


# Quantizers before views and copies


def test_a_layers_moved_result_is_rounded_in_its_kernel() -> None:
    model = Lambda(
        lambda self, x: self.last(self.first(x).view(4, 5, 6, 4).transpose(1, 2).flatten(2)),
        first=nn.Linear(WIDTH, WIDTH),
        last=nn.Linear(20, 3),
    )
    assert kinds_of(model, torch.randn(4, 5, WIDTH)) == ["quantize", "q_linear", "q_linear"]


def test_a_moved_result_that_somebody_else_reads_stays() -> None:
    def run(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        moved = self.first(x).transpose(0, 1)
        return self.last(moved), moved.exp()

    model = Lambda(run, first=nn.Linear(WIDTH, WIDTH), last=nn.Linear(WIDTH, 3)).eval()
    x = torch.randn(4, 5, WIDTH)
    with torch.no_grad():
        quantized = _pt2e.quantized(model, x)
        found = cpuaccel.optimize(quantized, (x,))(x)
    torch.testing.assert_close(found, quantized(x), atol=0.02, rtol=1e-3)
