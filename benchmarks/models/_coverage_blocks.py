"""Parts of large networks for the coverage benchmark: SAM's encoder, a diffusion UNet's blocks."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.models._coverage_case import Case, Inputs, library

# The sizes of Stable Diffusion.
_TIME, _TEXT, _TOKENS = 1280, 768, 77

_SIDE, _PATCH, _WINDOW = 24, 16, 7
_WIDTH, _HEADS, _NECK = 768, 12, 256


class _BlockMaskLayer(nn.Module):
    """A layer of SAM's encoder; with a mask, a place attends to its window only."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(_WIDTH, eps=1e-6), nn.LayerNorm(_WIDTH, eps=1e-6)
        self.qkv, self.projection = nn.Linear(_WIDTH, 3 * _WIDTH), nn.Linear(_WIDTH, _WIDTH)
        self.up, self.down = nn.Linear(_WIDTH, 4 * _WIDTH), nn.Linear(4 * _WIDTH, _WIDTH)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Attention, then an MLP on each place separately."""
        qkv = self.qkv(self.first(x)).unflatten(-1, (3, _HEADS, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = qkv.unbind(0)
        found = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        x = x + self.projection(found.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.second(x))))


class _ChannelNorm(nn.Module):
    """A layer norm over the channels of an image."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight, self.bias = (nn.Parameter(torch.randn(channels)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each place."""
        mean = x.mean(1, keepdim=True)
        scaled = (x - mean) / ((x - mean).square().mean(1, keepdim=True) + 1e-6).sqrt()
        return self.weight[:, None, None] * scaled + self.bias[:, None, None]


class BlockMaskEncoder(nn.Module):
    """SAM's ViT-B image encoder, whose windows are an additive block mask over all places."""

    mask: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, _WIDTH, _PATCH, _PATCH)
        self.places = nn.Parameter(0.02 * torch.randn(1, _SIDE * _SIDE, _WIDTH))
        self.layers = nn.ModuleList(_BlockMaskLayer() for _ in range(3))
        self.neck = nn.Sequential(
            nn.Conv2d(_WIDTH, _NECK, 1, bias=False),
            _ChannelNorm(_NECK),
            nn.Conv2d(_NECK, _NECK, 3, padding=1, bias=False),
            _ChannelNorm(_NECK),
        )
        rows = torch.arange(_SIDE) // _WINDOW
        window = (rows[:, None] * _SIDE + rows).flatten()
        self.register_buffer(
            "mask",
            torch.zeros(len(window), len(window)).masked_fill(
                window[:, None] != window, -torch.inf
            ),
        )

    def forward(self, image: Tensor) -> Tensor:
        """Features of the patches."""
        x = self.patches(image).flatten(2).transpose(1, 2) + self.places
        for number, layer in enumerate(self.layers, 1):
            x = layer(x, None if number == len(self.layers) else self.mask)
        return self.neck(x.transpose(1, 2).unflatten(-1, (_SIDE, _SIDE)))


def _image(generator: torch.Generator) -> Inputs:
    side = _SIDE * _PATCH
    return Inputs((torch.randn(1, 3, side, side, generator=generator),))


def _diffusers(module: str, name: str, **options: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        found: nn.Module = getattr(library(module), name)(**options)
        return found

    return build


_BLOCKS = "diffusers.models.unets.unet_2d_blocks"


def _latents(channels: int, side: int, generator: torch.Generator) -> Inputs:
    """Inputs of a UNet block: feature maps, the time embedding, and the embedded prompt."""
    return Inputs(
        (
            torch.randn(2, channels, side, side, generator=generator),
            torch.randn(2, _TIME, generator=generator),
        ),
        {"encoder_hidden_states": torch.randn(2, _TOKENS, _TEXT, generator=generator)},
    )


def _noise(generator: torch.Generator) -> Inputs:
    return Inputs(
        (
            torch.randn(2, 4, 16, 16, generator=generator),
            torch.randint(1000, (2,), generator=generator),
            torch.randn(2, _TOKENS, _TEXT, generator=generator),
        ),
        {"return_dict": False},
    )


def cases() -> Iterator[Case]:
    """All cases of this file."""
    yield Case("sam_vit_b_block_masks", BlockMaskEncoder, _image)
    yield Case(
        "unet_down_block",
        _diffusers(
            _BLOCKS,
            "CrossAttnDownBlock2D",
            in_channels=320,
            out_channels=640,
            temb_channels=_TIME,
            num_layers=1,
            num_attention_heads=8,
            cross_attention_dim=_TEXT,
            downsample_padding=1,
        ),
        partial(_latents, 320, 16),
        ("diffusers",),
    )
    yield Case(
        "unet_mid_block",
        _diffusers(
            _BLOCKS,
            "UNetMidBlock2DCrossAttn",
            in_channels=1280,
            temb_channels=_TIME,
            num_attention_heads=8,
            cross_attention_dim=_TEXT,
        ),
        partial(_latents, 1280, 8),
        ("diffusers",),
    )
    # Half the width, with one block of each kind.
    yield Case(
        "unet",
        _diffusers(
            "diffusers",
            "UNet2DConditionModel",
            block_out_channels=(160, 320),
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
            layers_per_block=1,
            attention_head_dim=8,
            cross_attention_dim=_TEXT,
        ),
        _noise,
        ("diffusers",),
    )
