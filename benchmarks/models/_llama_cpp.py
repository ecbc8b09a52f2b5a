"""llama.cpp as a peer for decoders: weights in a GGUF file, run by xllamacpp's server."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.models._decoders import CONFIGS

_TYPES = {"fp32": "F32", "bf16": "BF16", "f16": "F16", "a8w8": "Q8_0", "a8w4": "Q4_0"}
"""GGUF's type of the weights by format. llama.cpp rounds rows to 8 bits for both Q types."""
_FAMILIES = {"Qwen2": "qwen2", "Llama": "llama", "Gemma3": "gemma3"}

_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
}
"""Names of a layer's parts in transformers and in GGUF."""
_NORMS = {"post_attention_layernorm": "ffn_norm"}
_GEMMA_NORMS = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def missing() -> str:
    """Return why it cannot run here, or ""."""
    lacking = [each for each in ("xllamacpp", "gguf") if not importlib.util.find_spec(each)]
    return f"{', '.join(lacking)} not installed" if lacking else ""


def note() -> str:
    """Return its version and its settings."""
    from importlib.metadata import version

    return f"llama.cpp: xllamacpp {version('xllamacpp')}, its server's own timings; {_TYPES}"


def has(number_format: str) -> bool:
    """Say whether it has a format."""
    return number_format in _TYPES


class Model:
    """A decoder of `_decoders.build` with weights in a format, in llama.cpp."""

    def __init__(self, name: str, weights: Any, number_format: str, positions: int) -> None:
        """`weights`: the float32 model; `positions`: the most tokens in the cache."""
        import xllamacpp

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.gguf"
            _write(path, name, weights, _TYPES[number_format])
            params = xllamacpp.CommonParams()
            params.model.path = str(path)
            params.n_ctx = positions
            params.n_parallel = 1
            params.n_batch = params.n_ubatch = 512
            params.cpuparams.n_threads = params.cpuparams_batch.n_threads = torch.get_num_threads()
            params.warmup = False
            params.n_gpu_layers = 0
            params.verbosity = -1
            with _quiet():
                self._server = xllamacpp.Server(params)

    def decode(self, context: int, tokens: int) -> float:
        """Return the seconds of a token: the mean of `tokens` after `context` others."""
        timings = self._timings([3] * context, tokens + 1, cached=True)
        return float(timings["predicted_ms"]) / 1e3 / float(timings["predicted_n"])

    def prompt(self, tokens: int) -> float:
        """Return the seconds of a prompt."""
        numbers = torch.randint(2, 100, (tokens,)).tolist()
        return float(self._timings(numbers, 1, cached=False)["prompt_ms"]) / 1e3

    def _timings(self, prompt: list[int], tokens: int, cached: bool) -> dict[str, Any]:
        request = {
            "prompt": prompt,
            "n_predict": tokens,
            "ignore_eos": True,
            "temperature": 0.0,
            "samplers": ["top_k"],
            "top_k": 1,
            "cache_prompt": cached,
        }
        answer = self._server.handle_completions(request)
        found: dict[str, Any] = answer
        return dict(found["timings"])


def _write(path: Path, name: str, model: Any, kind: str) -> None:
    """Write a model with a vocabulary of made-up words."""
    import gguf

    sizes = CONFIGS[name]
    family = _FAMILIES[sizes.family]
    layers = int(model.config.num_hidden_layers)
    writer = gguf.GGUFWriter(str(path), family)
    writer.add_context_length(32768)
    writer.add_embedding_length(sizes.hidden_size)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(sizes.intermediate_size)
    writer.add_head_count(sizes.num_attention_heads)
    writer.add_head_count_kv(sizes.num_key_value_heads)
    writer.add_key_length(sizes.head_dim)
    writer.add_value_length(sizes.head_dim)
    writer.add_rope_dimension_count(sizes.head_dim)
    writer.add_rope_freq_base(sizes.rope_theta)
    writer.add_layer_norm_rms_eps(1e-6)
    if sizes.sliding_window:
        writer.add_sliding_window(sizes.sliding_window)
    writer.add_vocab_size(sizes.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([f"w{number}" for number in range(sizes.vocab_size)])
    writer.add_token_types([1] * sizes.vocab_size)
    writer.add_token_merges(["w 0"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(1)
    tensors = {
        "token_embd.weight": model.model.embed_tokens.weight,
        "output_norm.weight": model.model.norm.weight,
    }
    norms = _GEMMA_NORMS if family == "gemma3" else _NORMS
    for number, layer in enumerate(model.model.layers):
        for theirs, short in (_NAMES | norms).items():
            with contextlib.suppress(AttributeError):
                part = layer.get_submodule(theirs)
                for each, tensor in part.named_parameters():
                    tensors[f"blk.{number}.{short}.{each}"] = tensor
    for title, tensor in tensors.items():
        values = tensor.detach().float().numpy()
        of = gguf.GGMLQuantizationType[kind if values.ndim > 1 else "F32"]
        writer.add_tensor(title, gguf.quants.quantize(values, of), raw_dtype=of)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Drop what C code writes to stderr while it loads a model."""
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
