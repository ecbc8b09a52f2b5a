"""Graphs from torch.export, decomposed to ATen ops: the same results, also with dynamic sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from compile._compiled import Lambda
from cpuaccel.compile.capture import decompose, torch_export

_WIDTH = 8

FUNCTIONS: dict[str, Callable[[Tensor], Any]] = {
    "relu_": lambda x: F.relu_(x + 1),
    "hardtanh_": lambda x: F.hardtanh_(x + 1, 0, 6),
    "hardswish_": lambda x: F.hardswish(x + 1, inplace=True),
    "in place, in a row": lambda x: F.relu_((x + 1).add_(x)).mul_(2),
    "in place, read before": lambda x: (lambda y: y * 2 + F.relu_(y))(x + 1),
    "in place, behind a view": lambda x: (lambda y, v: (F.relu_(y), v * 2)[1])(
        *(lambda y: (y, y[:, 0]))(x - 1)
    ),
    "in place, behind a reshape": lambda x: (lambda y, v: (F.relu_(y), v * 2)[1])(
        *(lambda y: (y, y.flatten(1)))(x - 1)
    ),
    "in place, behind a dropout": lambda x: (lambda y, d: (F.relu_(d), y * 2)[1])(
        *(lambda y: (y, F.dropout(y, 0.5, training=False)))(x - 1)
    ),
    "in place, behind type_as": lambda x: (lambda y, d: (F.relu_(y), d * 2)[1])(
        *(lambda y: (y, y.type_as(x)))(x - 1)
    ),
    "in place, through a view": lambda x: (lambda y: (y[:, 0].add_(1), y)[1])(x + 1),
    "set item": lambda x: (lambda y: (y.__setitem__((slice(None), 0), 0), y)[1])(x + 1),
    "masked_fill_": lambda x: (x + 1).masked_fill_(x > 0, 0),
    "conv2d": lambda x: F.conv2d(x, torch.ones(4, _WIDTH, 3, 3), padding=1),
    "linear of four dimensions": lambda x: F.linear(x.permute(0, 2, 3, 1), torch.ones(5, _WIDTH)),
    "linear with a bias": lambda x: F.linear(x[:, :, 0, 0], torch.ones(5, 8), torch.ones(5)),
    "group_norm": lambda x: F.group_norm(x, 2, torch.arange(8.0), torch.ones(8)),
    "instance_norm": lambda x: F.instance_norm(x),
    "mean of images": lambda x: F.adaptive_avg_pool2d(x, 1),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 2),
    "nearest": lambda x: F.interpolate(x, scale_factor=2.0),
    "bilinear": lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"),
    "bilinear to a size": lambda x: F.interpolate(x, size=(9, 7), mode="bilinear"),
    "size of another": lambda x: F.interpolate(x, size=(x.shape[2] + 3, x.shape[3] * 2)),
    "pad": lambda x: F.pad(x, (1, 2, 0, 1)),
    "softmax": lambda x: F.softmax(x, 1),
    "var": lambda x: x.var((2, 3)),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "a mask": lambda x: F.scaled_dot_product_attention(
        x, x, x, attn_mask=torch.ones(x.shape[2], x.shape[2], dtype=torch.bool).tril()
    ),
    "heads": lambda x: x.flatten(2).transpose(1, 2).unflatten(-1, (2, -1)).transpose(1, 2),
    "first place": lambda x: x[:, 0] + x[..., 0].mean(),
    "positions": lambda x: x + torch.arange(x.shape[3]),
    "several results": lambda x: {"a": x.chunk(2, 1), "b": (None, x.sum())},
}


def _decomposed(model: nn.Module, x: Tensor, dynamic: set[tuple[int, int]]) -> Any:
    with torch.no_grad():
        return decompose.decomposed(torch_export.exported(model, (x,), {}, dynamic))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_the_models(name: str) -> None:
    model = Lambda(lambda self, x: FUNCTIONS[name](x)).eval()
    sizes = (2, _WIDTH, 8, 12), (3, _WIDTH, 9, 14)
    found = _decomposed(model, torch.randn(sizes[0]), {(0, 0), (0, 2), (0, 3)})
    for size in sizes:
        x = torch.randn(size)
        with torch.no_grad():
            torch.testing.assert_close(found(x), model(x))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sizes_of_inputs_are_read_from_them(name: str) -> None:
    model = Lambda(lambda self, x: FUNCTIONS[name](x)).eval()
    graph = _decomposed(model, torch.randn(2, _WIDTH, 8, 12), {(0, 0), (0, 2), (0, 3)}).graph
    sizes = graph.find_nodes(op="call_function", target=torch.ops.aten.sym_size.int)
    assert all(node.args[0].op == "placeholder" for node in sizes)


def test_mutations_of_buffers_and_inputs_stay() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x: Tensor) -> Tensor:
            self.seen.add_(x.sum(0))
            return x.mul_(2)

    model = Counts().eval()
    found = _decomposed(model, torch.randn(2, 3), set())
    x = torch.ones(2, 3)
    assert torch.equal(found(x), torch.full((2, 3), 2.0))
    assert torch.equal(x, torch.full((2, 3), 2.0))
    assert torch.equal(model.seen, torch.full((3,), 2.0))


def test_weights_are_the_models_own() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
    found = _decomposed(model, torch.randn(2, 4), {(0, 0)})
    x = torch.randn(5, 4)
    with torch.no_grad():
        model[0].weight.mul_(3)
        torch.testing.assert_close(found(x), model(x))


def test_no_size_of_a_convolution_becomes_a_condition() -> None:
    # aten::convolution chooses among libraries by the number of elements.
    model = nn.Conv2d(3, 4, 3).eval()
    with torch.no_grad():
        program = torch_export.exported(model, (torch.randn(1, 3, 20, 20),), {}, {(0, 2), (0, 3)})
        graph = decompose.decomposed(program).graph
    (image,) = graph.find_nodes(op="placeholder")
    guards = image.meta["val"].shape[2].node.shape_env.guards
    assert not any("20480" in str(guard.expr) for guard in guards)


def test_a_trace_ends_when_it_takes_too_long() -> None:
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(50))).eval()
    with pytest.raises(TimeoutError), torch_export.time_limit(1e-6):
        torch_export.exported(model, (torch.randn(2, 4),), {}, {(0, 0)})
