"""transformers' models for the coverage benchmark: true widths, few layers, random weights."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.models._coverage_case import Case, Inputs, library

_LAYERS = 2
_BATCH, _LENGTH, _PADDED = 2, 24, 5
_FRAMES = 200
# Used instead of vocabularies that would take too much memory.
_VOCABULARY = 8000

_Make = Callable[[torch.Generator], dict[str, Any]]


@dataclass(frozen=True)
class _Row:
    """A transformers class, the options of its config, and its inputs by keyword."""

    name: str
    model: str
    config: str
    options: dict[str, Any]
    inputs: _Make
    part: Callable[[Any], nn.Module] = field(default=lambda model: model)
    """The part of the model that is run."""


def _tokens(generator: torch.Generator) -> Tensor:
    return torch.randint(3, 1000, (_BATCH, _LENGTH), generator=generator)


def _mask() -> Tensor:
    """A mask in which the last tokens of the last row are padding."""
    mask = torch.ones(_BATCH, _LENGTH, dtype=torch.int64)
    mask[-1, -_PADDED:] = 0
    return mask


def _text(generator: torch.Generator) -> dict[str, Any]:
    return {"input_ids": _tokens(generator), "attention_mask": _mask()}


def _two_texts(generator: torch.Generator) -> dict[str, Any]:
    return {**_text(generator), "decoder_input_ids": _tokens(generator)}


def _image(side: int, generator: torch.Generator) -> dict[str, Any]:
    return {"pixel_values": torch.randn(_BATCH, 3, side, side, generator=generator)}


def _text_and_image(side: int, generator: torch.Generator) -> dict[str, Any]:
    return {**_text(generator), **_image(side, generator)}


def _sound(generator: torch.Generator) -> dict[str, Any]:
    return {"input_features": torch.randn(_BATCH, 80, _FRAMES, generator=generator)}


_NO_CACHE = {"use_cache": False}
_ENCODER = {"num_hidden_layers": _LAYERS}
_DECODER = {"num_hidden_layers": _LAYERS, "vocab_size": _VOCABULARY, **_NO_CACHE}
_SIDE = 64

_ROWS = (
    _Row("bert", "BertModel", "BertConfig", _ENCODER, _text),
    _Row("roberta", "RobertaModel", "RobertaConfig", _ENCODER, _text),
    _Row("distilbert", "DistilBertModel", "DistilBertConfig", {"n_layers": _LAYERS}, _text),
    _Row(
        "albert",
        "AlbertModel",
        "AlbertConfig",
        {**_ENCODER, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072},
        _text,
    ),
    _Row("electra", "ElectraModel", "ElectraConfig", _ENCODER, _text),
    _Row("mpnet", "MPNetModel", "MPNetConfig", _ENCODER, _text),
    _Row(
        "deberta_v2",
        "DebertaV2Model",
        "DebertaV2Config",
        {
            **_ENCODER,
            "hidden_size": 768,
            "num_attention_heads": 12,
            "intermediate_size": 3072,
            "vocab_size": _VOCABULARY,
            "relative_attention": True,
            "position_buckets": 256,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "pos_att_type": ["p2c", "c2p"],
        },
        _text,
    ),
    _Row("t5_encoder", "T5EncoderModel", "T5Config", {"num_layers": _LAYERS, **_NO_CACHE}, _text),
    _Row(
        "bart",
        "BartModel",
        "BartConfig",
        {"encoder_layers": _LAYERS, "decoder_layers": _LAYERS, **_NO_CACHE},
        _two_texts,
    ),
    _Row("gpt2", "GPT2LMHeadModel", "GPT2Config", {"n_layer": _LAYERS, **_NO_CACHE}, _text),
    _Row("opt", "OPTForCausalLM", "OPTConfig", _DECODER, _text),
    # The widths of TinyLlama.
    _Row(
        "llama",
        "LlamaForCausalLM",
        "LlamaConfig",
        {
            **_DECODER,
            "hidden_size": 2048,
            "intermediate_size": 5632,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
        },
        _text,
    ),
    # The widths of the 0.5B model.
    _Row(
        "qwen2",
        "Qwen2ForCausalLM",
        "Qwen2Config",
        {
            **_DECODER,
            "hidden_size": 896,
            "intermediate_size": 4864,
            "num_attention_heads": 14,
            "num_key_value_heads": 2,
        },
        _text,
    ),
    # A quarter of its width, with a window shorter than the text.
    _Row(
        "mistral",
        "MistralForCausalLM",
        "MistralConfig",
        {
            **_DECODER,
            "hidden_size": 1024,
            "intermediate_size": 3584,
            "num_attention_heads": 8,
            "num_key_value_heads": 2,
            "sliding_window": 16,
        },
        _text,
    ),
    _Row(
        "whisper_encoder",
        "WhisperModel",
        "WhisperConfig",
        {
            "d_model": 512,
            "encoder_layers": _LAYERS,
            "encoder_attention_heads": 8,
            "encoder_ffn_dim": 2048,
            "decoder_layers": 1,
            "decoder_attention_heads": 8,
            "vocab_size": _VOCABULARY,
            "pad_token_id": 0,
            "max_source_positions": _FRAMES // 2,
        },
        _sound,
        lambda model: model.get_encoder(),
    ),
    _Row(
        "clip",
        "CLIPModel",
        "CLIPConfig",
        {
            "text_config": {"num_hidden_layers": _LAYERS, "vocab_size": _VOCABULARY},
            "vision_config": {"num_hidden_layers": _LAYERS, "image_size": _SIDE},
        },
        partial(_text_and_image, _SIDE),
    ),
    _Row(
        "vit",
        "ViTModel",
        "ViTConfig",
        {**_ENCODER, "image_size": _SIDE},
        partial(_image, _SIDE),
    ),
    # Its position embedding is resized, as for all images that do not have its own size.
    _Row(
        "dinov2",
        "Dinov2Model",
        "Dinov2Config",
        {**_ENCODER, "image_size": 224},
        partial(_image, 56),
    ),
    _Row(
        "segformer",
        "SegformerForSemanticSegmentation",
        "SegformerConfig",
        {"num_labels": 19},
        partial(_image, _SIDE),
    ),
    _Row(
        "convnext_v2",
        "ConvNextV2Model",
        "ConvNextV2Config",
        {"depths": [1, 1, _LAYERS, 1]},
        partial(_image, _SIDE),
    ),
    # SAM's ViT-B: windows with relative positions, and one layer that attends to everything. The
    # image is a quarter of its own, which fills the windows as badly as the whole image does.
    _Row(
        "sam_vit_b",
        "SamVisionModel",
        "SamVisionConfig",
        # The model's own range is 1e-10; with that, only biases would matter.
        {
            "num_hidden_layers": 3,
            "global_attn_indexes": [2],
            "image_size": 512,
            "initializer_range": 0.02,
        },
        lambda generator: {"pixel_values": torch.randn(1, 3, 512, 512, generator=generator)},
    ),
)


def _build(row: _Row) -> nn.Module:
    transformers = library("transformers")
    config = getattr(transformers, row.config)(**row.options)
    return row.part(getattr(transformers, row.model)(config))


def _inputs(row: _Row, generator: torch.Generator) -> Inputs:
    return Inputs(kwargs=row.inputs(generator))


def cases() -> Iterator[Case]:
    """All models."""
    for row in _ROWS:
        yield Case(row.name, partial(_build, row), partial(_inputs, row), ("transformers",))
