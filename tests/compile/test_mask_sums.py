"""Attention whose mask is a sum of two parts, as that of relative positions in images."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cpuaccel
from compile._compiled import Net, needs_onednn
from cpuaccel.compile.capture.capture import graph_of

pytestmark = needs_onednn

HEADS, WIDTH, ROWS, COLUMNS = 2, 16, 5, 7
Join = Callable[[Tensor, Tensor], Tensor]


def _sum(rows: Tensor, columns: Tensor) -> Tensor:
    return rows[..., :, None] + columns[..., None, :]


def _attention(join: Join, read_mask: bool = False) -> Net:
    """Attention of SAM's image encoder, whose mask is made of the queries."""

    def forward(self: Any, x: Tensor) -> Any:
        N, H, W, C = x.shape
        heads = self.qkv(x).reshape(N, H * W, 3, HEADS, WIDTH).permute(2, 0, 3, 1, 4)
        query, key, value = heads.reshape(3, N * HEADS, H * W, WIDTH).unbind(0)
        image = query.reshape(N * HEADS, H, W, WIDTH)
        rows = torch.einsum("bhwc,hkc->bhwk", image, self.rows)
        columns = torch.einsum("bhwc,wkc->bhwk", image, self.columns)
        mask = join(rows, columns).reshape(N, HEADS, H * W, H * W)
        query, key, value = (each.view(N, HEADS, H * W, WIDTH) for each in (query, key, value))
        result = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        result = result.view(N, HEADS, H, W, WIDTH).permute(0, 2, 3, 1, 4).reshape(N, H, W, C)
        result = self.out(result)
        return (result, mask) if read_mask else result

    torch.manual_seed(0)
    net = Net(
        forward,
        qkv=nn.Linear(HEADS * WIDTH, 3 * HEADS * WIDTH),
        out=nn.Linear(HEADS * WIDTH, HEADS * WIDTH),
    ).eval()
    net.register_buffer("rows", torch.randn(ROWS, ROWS, WIDTH))
    net.register_buffer("columns", torch.randn(COLUMNS, COLUMNS, WIDTH))
    return net


def _image(dtype: torch.dtype = torch.float32, batch: int = 3) -> Tensor:
    return torch.randn(batch, ROWS, COLUMNS, HEADS * WIDTH).to(dtype)


def _sums_left(net: Net, x: Tensor) -> int:
    """Return the number of sums of parts that the graph of `net` has beside its regions."""
    graph, *_ = graph_of(net, (x,), {}, in_place=True)
    return sum(node.target is torch.ops.aten.add.Tensor for node in graph.graph.nodes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("way", ["optimize", "compile"])
def test_attention_adds_the_parts(way: str, batch: int, dtype: torch.dtype) -> None:
    net, x = _attention(_sum).to(dtype), _image(dtype, batch)
    with torch.no_grad():
        exact = copy.deepcopy(net).double()(x.double())
        if way == "optimize":
            assert not _sums_left(net, x)
            found = cpuaccel.optimize(net, (x,), time_budget=0)(x)
        else:
            torch.compiler.reset()
            found = torch.compile(net, backend="cpuaccel")(x)
    tolerance = 2e-5 if dtype == torch.float32 else 5e-2
    torch.testing.assert_close(found.double(), exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("join", "sums"),
    [
        (lambda rows, columns: columns[..., None, :] + rows[..., :, None], 0),
        (lambda rows, columns: _sum(rows, columns).contiguous(), 0),
        (lambda rows, columns: torch.add(rows[..., :, None], columns[..., None, :], alpha=2), 1),
        (lambda rows, columns: _sum(rows, columns[:1]), 1),
        (lambda rows, columns: _sum(columns, rows), 0),
        (lambda rows, columns: rows[..., :, None] - columns[..., None, :], 0),
    ],
    ids=["swapped", "contiguous", "alpha", "broadcast", "columns first", "difference"],
)
def test_other_ways_to_make_the_mask(join: Join, sums: int) -> None:
    net, x = _attention(join), _image()
    with torch.no_grad():
        assert _sums_left(net, x) == sums
        expected = net(x)
        found = cpuaccel.optimize(net, (x,), time_budget=0)(x)
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)


def test_a_mask_that_is_read_elsewhere() -> None:
    net, x = _attention(_sum, read_mask=True), _image()
    with torch.no_grad():
        expected = net(x)
        found = cpuaccel.optimize(net, (x,), time_budget=0)(x)
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)


def test_rows_of_images_stay_contiguous() -> None:
    """The results of linear layers and norms of four dimensions are no images."""
    net, x = _attention(_sum), _image()
    graph, *_ = graph_of(net, (x,), {}, in_place=True)
    texts = [node.args[-2] for node in graph.graph.nodes if "graph_region" in str(node.target)]
    layouts = [
        line.split()[-1]
        for text in texts
        for line in str(text).splitlines()
        if line.startswith("output ")
    ]
    assert set(layouts) == {"contiguous"}
