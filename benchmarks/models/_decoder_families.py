"""Small models of transformers' families that generate, with random weights."""

from __future__ import annotations

from typing import Any

import torch

VOCABULARY = 128
_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
}
_WINDOWS = {
    "head_dim": 16,
    "sliding_window": 12,
    "layer_types": ["sliding_attention", "full_attention"],
}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2}
_LLAMA_3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
_T5 = {
    "d_model": 64,
    "d_kv": 16,
    "d_ff": 96,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
_BART = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 96,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}
_WHISPER = {
    **_BART,
    "num_mel_bins": 80,
    "max_source_positions": 100,
    "decoder_start_token_id": 1,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}

FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Llama": ("LlamaConfig", "LlamaForCausalLM", {}),
    "Llama 3": ("LlamaConfig", "LlamaForCausalLM", {"rope_parameters": _LLAMA_3}),
    "Qwen2": ("Qwen2Config", "Qwen2ForCausalLM", {}),
    "Qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {"head_dim": 16}),
    "Gemma": ("GemmaConfig", "GemmaForCausalLM", {"head_dim": 16}),
    "Gemma 2": ("Gemma2Config", "Gemma2ForCausalLM", _WINDOWS),
    "Gemma 3": ("Gemma3TextConfig", "Gemma3ForCausalLM", _WINDOWS),
    "Mistral": ("MistralConfig", "MistralForCausalLM", {"sliding_window": 12}),
    "Phi": (
        "PhiConfig",
        "PhiForCausalLM",
        {"num_key_value_heads": 4, "partial_rotary_factor": 0.5},
    ),
    "Phi 3": ("Phi3Config", "Phi3ForCausalLM", {}),
    "GPT-2": ("GPT2Config", "GPT2LMHeadModel", {"n_positions": 128}),
    "OPT": ("OPTConfig", "OPTForCausalLM", {"ffn_dim": 96, "word_embed_proj_dim": 64}),
    "OLMoE": ("OlmoeConfig", "OlmoeForCausalLM", _EXPERTS),
    "Qwen3-MoE": (
        "Qwen3MoeConfig",
        "Qwen3MoeForCausalLM",
        {**_EXPERTS, "head_dim": 16, "moe_intermediate_size": 32},
    ),
    "Mixtral": ("MixtralConfig", "MixtralForCausalLM", {"num_local_experts": 4}),
    "GPT-OSS": (
        "GptOssConfig",
        "GptOssForCausalLM",
        {**_WINDOWS, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    "Pythia": ("GPTNeoXConfig", "GPTNeoXForCausalLM", {}),
    "GPT-J": (
        "GPTJConfig",
        "GPTJForCausalLM",
        {"n_embd": 64, "n_layer": 2, "n_head": 4, "rotary_dim": 8},
    ),
    "StarCoder 2": ("Starcoder2Config", "Starcoder2ForCausalLM", {"sliding_window": 12}),
    "StableLM": ("StableLmConfig", "StableLmForCausalLM", {}),
    "Granite": (
        "GraniteConfig",
        "GraniteForCausalLM",
        {"attention_multiplier": 0.1, "logits_scaling": 2.0},
    ),
    "SmolLM3": ("SmolLM3Config", "SmolLM3ForCausalLM", {}),
    "Cohere": ("CohereConfig", "CohereForCausalLM", {}),
    "Cohere 2": ("Cohere2Config", "Cohere2ForCausalLM", {"sliding_window": 12}),
    "OLMo 2": ("Olmo2Config", "Olmo2ForCausalLM", {}),
    "GLM 4": ("Glm4Config", "Glm4ForCausalLM", {"head_dim": 16}),
    "Falcon": ("FalconConfig", "FalconForCausalLM", {}),
    "Bloom": ("BloomConfig", "BloomForCausalLM", {"n_layer": 2, "n_head": 4}),
    "T5": ("T5Config", "T5ForConditionalGeneration", _T5),
    "BART": ("BartConfig", "BartForConditionalGeneration", _BART),
    "mBART": (
        "MBartConfig",
        "MBartForConditionalGeneration",
        {**_BART, "scale_embedding": True},
    ),
    "Marian": ("MarianConfig", "MarianMTModel", {**_BART, "scale_embedding": True}),
    "Pegasus": ("PegasusConfig", "PegasusForConditionalGeneration", _BART),
    "Whisper": ("WhisperConfig", "WhisperForConditionalGeneration", _WHISPER),
}
"""The names of the config's and the model's class, and sizes beside `_SIZES`."""


def build(family: str, **others: Any) -> Any:
    """Return a model in float32 and eval mode; `others`: other sizes than those of the family."""
    import transformers

    config_class, model_class, sizes = FAMILIES[family]
    torch.manual_seed(0)
    config = getattr(transformers, config_class)(**{**_SIZES, **sizes, **others})
    return getattr(transformers, model_class)(config).eval()


def prompt(model: Any, tokens: int) -> dict[str, Any]:
    """Return the inputs of `generate`: `tokens` random tokens, or speech for Whisper."""
    generator = torch.Generator().manual_seed(1)
    if model.config.model_type == "whisper":
        frames = 2 * model.config.max_source_positions
        features = torch.randn(1, model.config.num_mel_bins, frames, generator=generator)
        return {"input_features": features.to(model.dtype)}
    return {"input_ids": torch.randint(3, VOCABULARY, (1, tokens), generator=generator)}
