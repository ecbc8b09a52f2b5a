"""Decoders of transformers with random weights, in the formats that the benchmark times."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from benchmarks import _torchvision

FORMATS = ("fp32", "bf16", "f16", "a16w8", "a8w8", "a16w4", "a8w4")
"""Floats; or codes of 8 or 4 bits for weights (w) under float rows (a16) or rows of 8 bits (a8)."""

_DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
_GROUP = 32
"""Codes of 4 bits that share a scale; codes of 8 bits have one scale a row."""


@dataclass(frozen=True)
class DecoderConfig:
    """The sizes of a decoder, by the names of transformers' configs."""

    family: str
    """The first part of the names of its classes in transformers."""
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rope_theta: float = 10000.0
    sliding_window: int | None = None


CONFIGS: dict[str, DecoderConfig] = {
    "qwen2.5-0.5b": DecoderConfig("Qwen2", 151936, 896, 4864, 24, 14, 2, 64, 1e6),
    "llama-3.2-1b": DecoderConfig("Llama", 128256, 2048, 8192, 16, 32, 8, 64, 5e5),
    "gemma-3-270m": DecoderConfig("Gemma3", 262144, 640, 2048, 18, 4, 1, 256, 1e6, 512),
    "smolvlm-256m": DecoderConfig("Llama", 49280, 576, 1536, 30, 9, 3, 64, 1e5),
    # For tests of the benchmark.
    "tiny": DecoderConfig("Llama", 128, 64, 96, 2, 4, 2, 16),
}
"""All of them use the embedding table for the scores too."""


def missing() -> str:
    """Return why transformers cannot build the models here, or ""."""
    _let_torchvision_be_imported()
    try:
        from transformers import LlamaForCausalLM  # noqa: F401
    except Exception as error:  # a torchvision of another torch raises anything
        return f"transformers cannot be imported: {error}"
    return ""


def _let_torchvision_be_imported() -> None:
    """transformers imports torchvision if there is one: let that not fail for want of its ops."""
    with contextlib.suppress(ImportError):
        _torchvision.import_torchvision()


def build(name: str, layers: int | None = None) -> Any:
    """Return a model in float32; `layers`: the number of its layers, instead of its own."""
    _let_torchvision_be_imported()
    import transformers

    sizes = CONFIGS[name]
    gemma = sizes.family == "Gemma3"
    config_class = getattr(transformers, f"{sizes.family}{'Text' if gemma else ''}Config")
    options: dict[str, Any] = {
        "vocab_size": sizes.vocab_size,
        "hidden_size": sizes.hidden_size,
        "intermediate_size": sizes.intermediate_size,
        "num_hidden_layers": layers or sizes.num_hidden_layers,
        "num_attention_heads": sizes.num_attention_heads,
        "num_key_value_heads": sizes.num_key_value_heads,
        "head_dim": sizes.head_dim,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": True,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": None,
    }
    if sizes.sliding_window:
        options["sliding_window"] = sizes.sliding_window
    else:
        options["rope_parameters"] = {"rope_type": "default", "rope_theta": sizes.rope_theta}
    torch.manual_seed(0)
    return getattr(transformers, f"{sizes.family}ForCausalLM")(config_class(**options)).eval()


def in_format(model: Any, name: str) -> Any:
    """Change a float32 model to a format of FORMATS, in place, and return it."""
    if name in _DTYPES:
        return model.to(_DTYPES[name])
    if name == "fp32":
        return model
    from torchao.quantization import (
        Int8DynamicActivationInt8WeightConfig,
        Int8DynamicActivationIntxWeightConfig,
        Int8WeightOnlyConfig,
        IntxWeightOnlyConfig,
        quantize_,
    )
    from torchao.quantization.granularity import PerGroup

    groups = PerGroup(_GROUP)
    config: Any = {
        "a16w8": lambda: Int8WeightOnlyConfig(set_inductor_config=False),
        "a8w8": lambda: Int8DynamicActivationInt8WeightConfig(set_inductor_config=False),
        "a16w4": lambda: IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=groups),
        "a8w4": lambda: Int8DynamicActivationIntxWeightConfig(
            weight_dtype=torch.int4, weight_granularity=groups
        ),
    }[name]()
    quantize_(model, config)
    return model


def weight_bytes(model: Any, name: str) -> int:
    """Return the bytes of weights that one step reads: those of all linear layers."""
    linear = [each for each in model.modules() if isinstance(each, nn.Linear)]
    codes = sum(each.in_features * each.out_features for each in linear)
    rows = sum(each.out_features for each in linear)
    if name.endswith("w8"):
        return codes + 4 * rows
    if name.endswith("w4"):
        return codes // 2 + 4 * (codes // _GROUP)  # scales of float32, as the model's
    return codes * (2 if name in _DTYPES else 4)


def filled_cache(model: Any, positions: int) -> Any:
    """Return a cache with random keys and values of this many positions."""
    from transformers import DynamicCache

    config = model.config
    cache = DynamicCache(config=config)
    sizes = (1, config.num_key_value_heads, positions, config.head_dim)
    for layer in range(config.num_hidden_layers):
        key, value = (torch.randn(sizes).to(model.dtype) for _ in range(2))
        cache.update(key, value, layer)
    return cache


def cache_bytes(cache: Any) -> int:
    """Return the bytes of the keys and values, which one step reads."""
    tensors = [each for layer in cache.layers for each in (layer.keys, layer.values)]
    return sum(each.numel() * each.element_size() for each in tensors)
