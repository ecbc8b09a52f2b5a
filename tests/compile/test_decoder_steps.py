"""Steps between the products of decoders: RMS norm, rotary embedding, gated products, scales.

The nets are written as transformers writes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cpuaccel
from compile._compiled import Net, needs_onednn
from cpuaccel import _native
from cpuaccel.compile.partition import cost

pytestmark = needs_onednn

WIDTH, HEADS, HEAD = 64, 4, 16
HALVES = [torch.bfloat16, torch.float16]


class Norm(nn.Module):
    """RMS norm with a weight, to which Gemma adds 1."""

    def __init__(self, form: str = "llama", width: int = WIDTH) -> None:
        super().__init__()
        self.weight, self.form = nn.Parameter(torch.randn(width)), form

    def forward(self, x: Tensor) -> Tensor:
        if self.form == "t5":
            variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
            normed = x * torch.rsqrt(variance + 1e-6)
            return self.weight * normed.to(self.weight.dtype)
        wide = x.float()
        if self.form == "gemma":
            normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
            return (normed * (1.0 + self.weight.float())).type_as(x)
        if self.form == "gemma3n":
            normed = wide * torch.pow(wide.pow(2).mean(-1, keepdim=True) + 1e-6, -0.5)
            return (normed * self.weight.float()).type_as(x)
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * normed.to(x.dtype)


def rotate_half(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def embedded(x: Tensor, cos: Tensor, sin: Tensor, dim: int = 1, empty_rest: bool = False) -> Tensor:
    """Return x with rotary embedding of its first columns, as many as the tables have.

    `empty_rest`: as Phi3 does it, which joins a rest that may have no columns.
    """
    cos, sin = cos.unsqueeze(dim), sin.unsqueeze(dim)
    width = cos.shape[-1]
    if width == x.shape[-1] and not empty_rest:
        return (x * cos) + (rotate_half(x) * sin)
    first, rest = x[..., :width], x[..., width:]
    return torch.cat([(first * cos) + (rotate_half(first) * sin), rest], dim=-1)


class Block(nn.Module):
    """A layer of a decoder with norms of queries and keys, on tables of any width."""

    def __init__(self, form: str = "llama") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(WIDTH, 96, bias=False) for _ in range(2))
        self.down = nn.Linear(96, WIDTH, bias=False)
        self.before, self.between = Norm(form), Norm(form)
        self.of_q, self.of_k = Norm(form, HEAD), Norm(form, HEAD)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, _ = x.shape
        sizes = (batch, length, HEADS, HEAD)
        normed = self.before(x)
        q = embedded(self.of_q(self.q(normed).view(sizes)).transpose(1, 2), cos, sin)
        k = embedded(self.of_k(self.k(normed).view(sizes)).transpose(1, 2), cos, sin)
        v = self.v(normed).view(sizes).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        normed = self.between(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


def _tables(batch: int, length: int, width: int, dtype: torch.dtype = torch.float32) -> Any:
    angles = torch.arange(length)[:, None] / 10 ** torch.linspace(0, 2, width // 2)
    angles = torch.cat([angles, angles], -1).expand(batch, length, width)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def _steps(model: nn.Module, *inputs: Tensor, atol: float = 1e-5) -> list[str]:
    """Compare a plan with the model; return the steps of all plans."""
    with torch.no_grad():
        optimized = cpuaccel.optimize(model.eval(), inputs, time_budget=0)
        expected = model(*inputs)
        torch.testing.assert_close(optimized(*inputs), expected, atol=atol, rtol=atol)
        plans = cpuaccel.explain(optimized, inputs).plans
    return [step.kinds for plan in plans for step in plan.steps]


def _alone(model: nn.Module, *inputs: Tensor, atol: float = 1e-2) -> list[str]:
    """The same for ops without layers beside them."""
    with cost.overrule({"decoder step": True}):
        return _steps(model, *inputs, atol=atol)


@pytest.mark.parametrize(("length", "width"), [(1, HEAD), (5, HEAD // 2)])
def test_a_layer_of_a_decoder_is_one_plan(length: int, width: int) -> None:
    inputs = torch.randn(2, length, WIDTH), *_tables(2, length, width)
    with torch.no_grad():
        optimized = cpuaccel.optimize(Block().eval(), inputs, time_budget=0)
        plans = cpuaccel.explain(optimized, inputs).plans
    kinds = [step.kinds for plan in plans for step in plan.steps]
    assert len([kind for kind in kinds if "rms_norm" in kind]) == 4
    assert kinds.count("rotary") == 2
    # On other CPUs, torch runs attention with so few queries unless it is timed.
    if _native.load().cpu_vendor() == "AuthenticAMD":
        assert len(plans) == 1
        assert "attention" in kinds
    assert not {"Square", "AvgPool", "Concat"} & set(kinds)


def test_sizes_that_differ_from_the_first_call() -> None:
    model = Block("gemma").eval()
    inputs = torch.randn(2, 5, WIDTH), *_tables(2, 5, HEAD)
    with torch.no_grad():
        optimized = cpuaccel.optimize(model, inputs, time_budget=0)
        for batch, length in ((3, 7), (1, 4)):
            given = torch.randn(batch, length, WIDTH), *_tables(batch, length, HEAD)
            torch.testing.assert_close(optimized(*given), model(*given), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("form", ["llama", "gemma", "gemma3n", "t5", "torch"])
def test_each_form_of_a_norm(form: str, dtype: torch.dtype) -> None:
    norm = nn.RMSNorm(WIDTH, eps=1e-6) if form == "torch" else Norm(form)
    x = torch.randn(3, 2, WIDTH).to(dtype)
    assert _alone(norm.to(dtype), x) == ["rms_norm"]


def test_the_sum_before_a_norm_is_in_its_step() -> None:
    def forward(self: Any, x: Tensor) -> tuple[Tensor, ...]:
        y = self.first(x)  # read twice, so the sum is no part of the layer
        return self.last(self.norm(x + y)), y

    model = Net(forward, first=nn.Linear(WIDTH, WIDTH), norm=Norm(), last=nn.Linear(WIDTH, 8))
    assert "Add+rms_norm" in _steps(model, torch.randn(5, WIDTH))


def test_rows_with_gaps_are_copied_before_a_norm() -> None:
    model = Net(lambda self, x: self.norm(self.first(x)[:, :, :HEAD]),
                first=nn.Linear(WIDTH, WIDTH), norm=Norm("llama", HEAD))  # fmt: skip
    assert "rms_norm" in _steps(model, torch.randn(2, 3, WIDTH))


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) + x.pow(2).mean(),
        lambda x: x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6),
        lambda x: x * torch.rsqrt(x.pow(3).mean(-1, keepdim=True).abs() + 1e-6),
        lambda x: (x + 1) * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6),
    ],
)
def test_what_only_resembles_a_norm_stays_right(change: Callable[[Tensor], Tensor]) -> None:
    model = Net(lambda self, x: self.last(change(self.first(x))),
                first=nn.Linear(WIDTH, WIDTH), last=nn.Linear(WIDTH, 8))  # fmt: skip
    _steps(model, torch.randn(2, 3, WIDTH), atol=1e-4)


class Rotary(nn.Module):
    """Rotary embedding; `dim` is that of heads."""

    def __init__(self, dim: int, empty_rest: bool = False) -> None:
        super().__init__()
        self.dim, self.empty_rest = dim, empty_rest

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return embedded(x, cos, sin, self.dim, self.empty_rest)


@pytest.mark.parametrize(
    ("dim", "width", "dtype"),
    [
        (1, HEAD, torch.float32),
        (2, HEAD // 2, torch.float32),
        *((1, HEAD // 2, dtype) for dtype in HALVES),
    ],
)
def test_rotary_embedding(dim: int, width: int, dtype: torch.dtype) -> None:
    x = torch.randn(2, 3, 5, HEAD).to(dtype)
    tables = _tables(2, x.shape[3 - dim], width, dtype)
    steps = _alone(Rotary(dim), x, *tables, atol=1e-5 if dtype == torch.float32 else 2e-2)
    assert "rotary" in steps
    assert "Concat" not in steps


def test_rotary_embedding_beside_an_empty_rest() -> None:
    x = torch.randn(2, 3, 5, HEAD)
    steps = _alone(Rotary(1, empty_rest=True), x, *_tables(2, 5, HEAD), atol=1e-5)
    assert "rotary" in steps
    assert "Concat" not in steps


def test_what_only_resembles_rotary_embedding_stays_right() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        y = self.first(x).view(2, 3, HEADS, HEAD)
        turned = torch.cat((-y[..., 6:], y[..., :6]), dim=-1)
        return self.last((y * 2 + turned * x[:, :, None, :HEAD]).flatten(2))

    model = Net(forward, first=nn.Linear(WIDTH, WIDTH), last=nn.Linear(WIDTH, 8))
    assert "rotary" not in _steps(model, torch.randn(2, 3, WIDTH))


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (F.silu, torch.float32),
        (F.silu, torch.float16),
        (lambda x: F.gelu(x, approximate="tanh"), torch.bfloat16),
    ],
)
def test_gated_products(function: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        gate, up = x.chunk(2, dim=-1)
        return function(gate) * up

    x = torch.randn(3, 5, 2 * WIDTH).to(dtype)
    assert "gated_product" in _alone(Net(forward), x)


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("factor", [0.125, 1 / 3, -2, float("inf")])
def test_products_with_a_number(factor: float, dtype: torch.dtype) -> None:
    x = torch.randn(3, 2, 5, WIDTH).to(dtype)
    for given in (x, x.transpose(1, 2), x[..., 3:]):
        assert "scale" in _alone(Net(lambda _, x: x * factor), given, atol=0)


def test_a_scale_between_layers_is_in_their_plan() -> None:
    model = Net(lambda self, x: self.last((self.first(x) * 0.3).view(6, 2, -1).transpose(0, 1)),
                first=nn.Linear(WIDTH, WIDTH), last=nn.Linear(WIDTH // 2, 8))  # fmt: skip
    assert "scale" in _steps(model, torch.randn(6, WIDTH))


def test_products_with_a_large_number_stay_right() -> None:
    model = Net(lambda self, x: self.last(self.first(x) * 1e300),
                first=nn.Linear(WIDTH, WIDTH), last=nn.ReLU())  # fmt: skip
    _steps(model, torch.randn(2, WIDTH))


def test_gelu_as_a_formula_is_one_op() -> None:
    def gelu(x: Tensor) -> Tensor:
        inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
        return 0.5 * x * (1.0 + torch.tanh(inner))

    model = Net(lambda self, x: self.last(gelu(self.first(x))),
                first=nn.Linear(WIDTH, WIDTH), last=nn.Linear(WIDTH, 8))  # fmt: skip
    assert _steps(model, torch.randn(3, WIDTH)) == ["MatMul+GELUTanh", "MatMul"]


def test_heads_of_one_token_are_not_written_as_images() -> None:
    inputs = torch.randn(1, 1, WIDTH), *_tables(1, 1, HEAD)

    class Heads(Block):
        def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
            heads = self.q(x).view(1, 1, HEADS, HEAD).transpose(1, 2)
            q = embedded(heads, cos, sin)
            return self.o(F.scaled_dot_product_attention(q, q, heads).flatten(1).unsqueeze(0))

    with cost.overrule({"attention": False}):
        assert "copy" not in _steps(Heads(), *inputs)
