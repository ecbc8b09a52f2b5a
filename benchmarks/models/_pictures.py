"""Networks that make or read pictures: diffusion, its VAE decoder, Segment Anything, CLIP.

They are built from the configs of published checkpoints, with random weights. Each takes tensors
only. `fused` gives the form that Diffusion Fast compiles.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.models import _peers
from benchmarks.models._coverage_case import library, vary

_SEED = 2024
_TEXT, _TOKENS, _WORDS = 768, 77, 49408
_STEP, _CLASSES = 500, 1000


class _Call(nn.Module):
    """Calls `model`, or its method `method`, with tensors in the place of named arguments."""

    def __init__(
        self, model: nn.Module, names: tuple[str, ...], results: tuple[str, ...], method: str = ""
    ) -> None:
        super().__init__()
        self.model, self.names, self.results, self.method = model, names, results, method

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The named results."""
        call = getattr(self.model, self.method) if self.method else self.model
        found = call(**dict(zip(self.names, tensors, strict=True)))
        if isinstance(found, tuple):
            return found[: len(self.results)]
        return tuple(getattr(found, name) for name in self.results)


def _unet() -> nn.Module:
    """The UNet of BK-SDM-Tiny: Stable Diffusion 1.5 with one layer a block and no middle block."""
    model = library("diffusers").UNet2DConditionModel(
        sample_size=32,
        block_out_channels=(320, 640, 1280),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D",) * 3,
        up_block_types=("CrossAttnUpBlock2D",) * 3,
        mid_block_type=None,
        cross_attention_dim=_TEXT,
        attention_head_dim=8,
    )
    return _Call(model, ("sample", "timestep", "encoder_hidden_states"), ("sample",))


def _dit() -> nn.Module:
    """DiT-B/2."""
    model = library("diffusers").DiTTransformer2DModel(
        num_attention_heads=12,
        attention_head_dim=64,
        out_channels=8,
        num_layers=12,
        sample_size=32,
        norm_eps=1e-6,
    )
    return _Call(model, ("hidden_states", "timestep", "class_labels"), ("sample",))


def _vae_decoder() -> nn.Module:
    """The decoder of Stable Diffusion's VAE."""
    model = library("diffusers").AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        block_out_channels=(128, 256, 512, 512),
        layers_per_block=2,
    )
    return _Call(model, ("z",), ("sample",), "decode")


def _sam_encoder() -> nn.Module:
    """The image encoder of SAM ViT-B, for images of 512 x 512 pixels."""
    sam = library("transformers.models.sam.modeling_sam")
    config = library("transformers").SamVisionConfig(image_size=512)
    config._attn_implementation = "sdpa"
    model = sam.SamVisionEncoder(config)
    return _Call(model, ("pixel_values",), ("last_hidden_state",))


def _sam_decoder() -> nn.Module:
    """The mask decoder of SAM, for one prompt."""
    sam = library("transformers.models.sam.modeling_sam")
    config = library("transformers").SamMaskDecoderConfig()
    config._attn_implementation = "sdpa"
    names = (
        *("image_embeddings", "image_positional_embeddings"),
        *("sparse_prompt_embeddings", "dense_prompt_embeddings"),
    )
    return _SeveralMasks(_Call(sam.SamMaskDecoder(config), names, ("masks", "scores")))


class _SeveralMasks(nn.Module):
    """The mask decoder with the three masks of an ambiguous prompt."""

    def __init__(self, call: _Call) -> None:
        super().__init__()
        self.call = call

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Masks and their scores."""
        decoder, names = self.call.model, self.call.names
        found = decoder(**dict(zip(names, tensors, strict=True)), multimask_output=True)
        return tuple(found[:2])


def _clip() -> nn.Module:
    """CLIP ViT-B/32."""
    transformers = library("transformers")
    model = transformers.CLIPModel(transformers.CLIPConfig())
    names = ("input_ids", "pixel_values")
    return _Call(model, names, ("image_embeds", "text_embeds", "logits_per_image"))


Draw = Callable[[int, torch.Generator], tuple[Tensor, ...]]


def _normal(*sizes: tuple[int, ...]) -> Draw:
    return lambda batch, generator: tuple(
        torch.randn(batch, *size, generator=generator) for size in sizes
    )


def _latents(batch: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    noise, text = _normal((4, 32, 32), (_TOKENS, _TEXT))(batch, generator)
    return noise, torch.full((batch,), _STEP), text


def _classes(batch: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    (noise,) = _normal((4, 32, 32))(batch, generator)
    labels = torch.randint(_CLASSES, (batch,), generator=generator)
    return noise, torch.full((batch,), _STEP), labels


def _text_and_image(batch: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    tokens = torch.randint(_WORDS, (batch, _TOKENS), generator=generator)
    return tokens, *_normal((3, 224, 224))(batch, generator)


@dataclass(frozen=True)
class Picture:
    """A network: `build` makes it, `draw` its inputs for a batch; it needs the package `needs`."""

    build: Callable[[], nn.Module]
    draw: Draw
    needs: str


_SIDE, _WIDTH, _POINTS = 64, 256, 3
_EMBEDDED = (_WIDTH, _SIDE, _SIDE)

PICTURES: dict[str, Picture] = {
    "unet-bk-sdm-tiny": Picture(_unet, _latents, "diffusers"),
    "dit-b-2": Picture(_dit, _classes, "diffusers"),
    "vae-decoder": Picture(_vae_decoder, _normal((4, 16, 16)), "diffusers"),
    "sam-vit-b-encoder": Picture(_sam_encoder, _normal((3, 512, 512)), "transformers"),
    "sam-mask-decoder": Picture(
        _sam_decoder, _normal(_EMBEDDED, _EMBEDDED, (1, _POINTS, _WIDTH), _EMBEDDED), "transformers"
    ),
    "clip-vit-b-32": Picture(_clip, _text_and_image, "transformers"),
}


def missing(name: str) -> str:
    """Why the network `name` cannot be built here, or ""."""
    return _peers.missing(PICTURES[name].needs)


def build(name: str) -> nn.Module:
    """The network `name` in eval mode, with the same random weights in every process."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        model = PICTURES[name].build().eval().requires_grad_(False)
        vary(model)
    return model


def inputs(name: str, batch: int) -> tuple[Tensor, ...]:
    """The same random inputs for `batch` pictures in every process."""
    return PICTURES[name].draw(batch, torch.Generator().manual_seed(_SEED))


def fused(model: nn.Module) -> nn.Module:
    """A copy with fused projections and channels_last weights, as Diffusion Fast compiles it."""
    model = copy.deepcopy(model)
    to_layout: Any = model.to
    for module in list(model.modules()):
        fuse: Any = getattr(module, "fuse_qkv_projections", None)
        if fuse is not None:
            fuse()
    to_layout(memory_format=torch.channels_last)
    return model
