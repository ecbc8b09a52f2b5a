"""Inputs of public reports about networks of pictures and their attention, in each way of calling.

Numbers are those of <https://github.com/pytorch/pytorch/issues>, unless a repository is named.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cpuaccel
from compile._compiled import Net, Net2, needs_onednn

pytestmark = needs_onednn

WAYS = ("eager", "optimize", "compile", "dynamic", "inductor")


def callable_of(way: str, net: nn.Module, inputs: tuple[Tensor, ...]) -> Callable[..., Any]:
    """Return `net` as it is called in this way."""
    torch.compiler.reset()
    if way == "optimize":
        return cpuaccel.optimize(net, inputs, time_budget=0)
    if way == "inductor":
        return torch.compile(net)
    if way != "eager":
        return torch.compile(net, backend="cpuaccel", dynamic=way == "dynamic")
    return net


def called(way: str, net: nn.Module, *inputs: Tensor) -> Any:
    """Return what `net` returns for `inputs`, called in this way."""
    with torch.no_grad():
        return callable_of(way, net, inputs)(*inputs)


def check(way: str, net: nn.Module, *inputs: Tensor, tolerance: float = 2e-5) -> None:
    """Compare with the same net in double precision, without cpuaccel."""
    with torch.no_grad(), cpuaccel.enabled(False):
        exact = copy.deepcopy(net).double()(
            *(each.double() if each.is_floating_point() else each for each in inputs)
        )
    found = called(way, net, *inputs)
    torch.testing.assert_close(
        found.double(), exact, rtol=tolerance, atol=tolerance, equal_nan=True
    )


class Attention(nn.Module):
    """Attention with the keyword arguments of each call."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options
        self.eval()

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, **self.options)


@pytest.mark.parametrize("way", WAYS)
def test_heads_of_another_shape_in_the_next_call(way: str) -> None:
    """#148545: the second shape gave NaN."""
    torch.manual_seed(0)
    net = Attention()
    for N, L, H, E in ((8, 90, 20, 64), (1, 153, 24, 128), (2, 1, 24, 128)):
        heads = [torch.randn(N, L, H, E).transpose(1, 2) for _ in range(3)]
        check(way, net, *heads)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["row", "all"])
def test_masks_that_hide_all_keys(way: str, kind: str) -> None:
    """#100318: a row of the mask is False."""
    torch.manual_seed(0)
    heads = [torch.randn(1, 2, 6, 16) for _ in range(3)]
    mask = torch.ones(1, 1, 6, 6, dtype=torch.bool)
    mask[..., 2 if kind == "row" else slice(None), :] = False
    expected = Attention()(*heads, mask)
    torch.testing.assert_close(called(way, Attention(), *heads, mask), expected)


@pytest.mark.parametrize("way", WAYS)
def test_nan_stays_nan(way: str) -> None:
    """#141128: a query of NaN gave zeros."""
    query, key, value = (torch.randn(2, 4, 16, 8) for _ in range(3))
    assert called(way, Attention(), query + torch.nan, key, value).isnan().all()


@pytest.mark.parametrize("way", WAYS)
def test_keys_that_are_hidden_do_not_count(way: str) -> None:
    """#101967: a large value of a hidden key changes nothing."""
    query, key, value = (torch.arange(8.0).reshape(1, 1, 2, 4).clone() for _ in range(3))
    mask = torch.tensor([[[[True, False], [True, False]]]])
    before = called("eager", Attention(), query, key, value, mask)
    key[0, 0, 1, 0] = 1e10
    torch.testing.assert_close(called(way, Attention(), query, key, value, mask), before)


@pytest.mark.parametrize("way", [way for way in WAYS if way != "inductor"])
def test_a_scale_that_is_a_tensor(way: str) -> None:
    """#191203: Inductor cannot compile the attention that it makes of it."""
    torch.manual_seed(0)
    scores = lambda self, q, k: F.softmax(  # noqa: E731
        q @ k.transpose(-2, -1) / self.scale + self.mask, dim=-1
    )
    net = Net2(lambda self, q, k: scores(self, q, k) @ k).eval()
    net.register_buffer("scale", torch.tensor(0.5))
    net.register_buffer("mask", torch.triu(torch.full((8, 8), -1e9), diagonal=1))
    check(way, net, *(torch.randn(1, 2, 8, 8) for _ in range(2)))


def _relative(self: Any, x: Tensor) -> Tensor:
    """The attention of facebookresearch/segment-anything, which softmax computes."""
    N, H, W, C = x.shape
    heads, width = 2, C // 2
    qkv = self.qkv(x).reshape(N, H * W, 3, heads, width).permute(2, 0, 3, 1, 4)
    q, k, v = qkv.reshape(3, N * heads, H * W, width).unbind(0)
    scores = (q * width**-0.5) @ k.transpose(-2, -1)
    image = q.reshape(N * heads, H, W, width)
    rows = torch.einsum("bhwc,hkc->bhwk", image, self.rows)
    columns = torch.einsum("bhwc,wkc->bhwk", image, self.columns)
    scores = (scores.view(N * heads, H, W, H, W) + rows[..., :, None] + columns[..., None, :]).view(
        N * heads, H * W, H * W
    )
    x = (scores.softmax(dim=-1) @ v).view(N, heads, H, W, -1).permute(0, 2, 3, 1, 4)
    return self.out(x.reshape(N, H, W, -1))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_segment_anything(way: str, dtype: torch.dtype) -> None:
    """meta-pytorch/segment-anything-fast #66, pytorch #171560."""
    torch.manual_seed(0)
    net = Net(_relative, qkv=nn.Linear(32, 96), out=nn.Linear(32, 32)).eval()
    net.register_buffer("rows", torch.randn(5, 5, 16))
    net.register_buffer("columns", torch.randn(7, 7, 16))
    tolerance = 2e-5 if dtype == torch.float32 else 5e-2
    check(way, net.to(dtype), torch.randn(3, 5, 7, 32).to(dtype), tolerance=tolerance)


@pytest.mark.parametrize("way", WAYS)
def test_video_in_half_precision(way: str) -> None:
    """huggingface/diffusers #3915: a norm and a convolution of video in float16, channels_last."""
    torch.manual_seed(0)
    net = Net(
        lambda self, x: self.norm(self.conv(x).permute(0, 2, 3, 4, 1)).permute(0, 4, 1, 2, 3),
        conv=nn.Conv3d(8, 16, 3, padding=1),
        norm=nn.LayerNorm(16),
    ).eval()
    net = net.half().to(memory_format=torch.channels_last_3d)
    x = torch.randn(1, 8, 3, 6, 6).half()
    for layout in (torch.contiguous_format, torch.channels_last_3d):
        check(way, net, x.to(memory_format=layout), tolerance=1e-2)


@pytest.mark.parametrize("way", WAYS)
def test_inference_mode_and_groups_of_channels(way: str) -> None:
    """#116848: a block of a UNet in inference mode gave black images."""
    torch.manual_seed(0)
    net = Net2(
        lambda self, x, time: (
            x
            + self.second(
                F.silu(self.norm(self.first(F.silu(x)) + self.time(time)[:, :, None, None]))
            )
        ),
        first=nn.Conv2d(32, 32, 3, padding=1),
        second=nn.Conv2d(32, 32, 3, padding=1),
        norm=nn.GroupNorm(8, 32),
        time=nn.Linear(16, 32),
    ).eval()
    x, time = torch.randn(2, 32, 16, 16), torch.randn(2, 16)
    with torch.inference_mode():
        with cpuaccel.enabled(False):
            exact = copy.deepcopy(net).double()(x.double(), time.double())
        call = callable_of(way, net, (x, time))
        for _ in range(2):
            found = call(x.to(memory_format=torch.channels_last), time)
            torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("way", WAYS)
def test_two_streams_in_bfloat16(way: str) -> None:
    """huggingface/diffusers #8593: attention of text and image together gave noise in bfloat16."""
    torch.manual_seed(0)

    def forward(self: Any, image: Tensor, text: Tensor) -> Tensor:
        def heads(x: Tensor, layer: nn.Module) -> list[Tensor]:
            parts = layer(x).chunk(3, dim=-1)
            return [each.view(x.shape[0], -1, 4, 16).transpose(1, 2) for each in parts]

        of_image, of_text = heads(image, self.image), heads(text, self.text)
        query, key, value = (torch.cat(pair, dim=2) for pair in zip(of_image, of_text, strict=True))
        query, key = (F.rms_norm(each, (16,), eps=1e-6) for each in (query, key))
        joined = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        return image + self.out(joined[:, : image.shape[1]])

    net = Net2(forward, **{name: nn.Linear(64, 192) for name in ("image", "text")})
    net.out = nn.Linear(64, 64)
    net = net.eval().to(torch.bfloat16)
    inputs = (torch.randn(2, length, 64).bfloat16() for length in (36, 13))
    check(way, net, *inputs, tolerance=5e-2)
