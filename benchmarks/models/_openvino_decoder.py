"""OpenVINO as a peer for decoders: a stateful model, with its own codes of 8 and 4 bits."""

from __future__ import annotations

import importlib.util
import time
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.models import _peers

_BITS = {"fp32": 0, "bf16": 0, "f16": 0, "a16w8": 8, "a8w8": 8, "a16w4": 4, "a8w4": 4}
_GROUP = 32


def missing() -> str:
    """Return why it cannot run here, or ""."""
    lacking = [each for each in ("openvino", "nncf") if not importlib.util.find_spec(each)]
    return f"{', '.join(lacking)} not installed" if lacking else ""


def note() -> str:
    """Return its version and its settings."""
    return (
        f"openvino: {_peers.versions('openvino', 'nncf')}; stateful, hint LATENCY; "
        "nncf.compress_weights to INT8_SYM or INT4_SYM in groups of 32; rows of 8 bits in groups "
        "of 32 for a8, floats for a16"
    )


class _WithCache(nn.Module):
    """A decoder whose inputs and results include keys and values."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, positions: Tensor, mask: Tensor, *past: Tensor) -> Any:
        from transformers import Cache

        cache = Cache(layers=[_layer(*past[at : at + 2]) for at in range(0, len(past), 2)])
        kinds = set(getattr(self.model.config, "layer_types", None) or ())
        output = self.model(
            input_ids=tokens,
            position_ids=positions,
            attention_mask=dict.fromkeys(kinds, mask) if len(kinds) > 1 else mask,
            past_key_values=cache,
            logits_to_keep=1,
        )
        kept = [each for layer in cache.layers for each in (layer.keys, layer.values)]
        return (output.logits, *kept)


def _layer(keys: Tensor, values: Tensor) -> Any:
    from transformers.cache_utils import DynamicLayer

    layer = DynamicLayer()
    # What its first update would do, with a tensor of one dimension that OpenVINO cannot convert.
    layer.lazy_initialization(keys, values)
    layer.keys, layer.values = keys, values
    return layer


class Model:
    """A decoder of `_decoders.build` in OpenVINO; `model` is its float32 form."""

    def __init__(self, model: Any, number_format: str) -> None:
        with _peers.preparing():
            self._request = _compiled(model, number_format).create_infer_request()

    def decode(self, context: int, tokens: int) -> float:
        """Return the seconds of a token: the mean of `tokens` after `context` others."""
        self._request.reset_state()
        for start in range(0, context, 512):
            self._run(min(512, context - start), start)
        self._run(1, context)
        begin = time.perf_counter()
        for number in range(tokens):
            self._run(1, context + 1 + number)
        return (time.perf_counter() - begin) / tokens

    def prompt(self, tokens: int) -> float:
        """Return the seconds of a prompt: the scores of its last token, and a cache."""
        self._request.reset_state()
        begin = time.perf_counter()
        self._run(tokens, 0)
        return time.perf_counter() - begin

    def _run(self, tokens: int, past: int) -> None:
        mask = torch.zeros((1, 1, tokens, past + tokens))
        if tokens > 1:
            mask.masked_fill_(torch.ones(tokens, past + tokens).triu(past + 1).bool(), -1e9)
        inputs = [
            torch.full((1, tokens), 3).numpy(),
            (torch.arange(tokens) + past)[None].numpy(),
            mask.numpy(),
        ]
        self._request.infer(dict(enumerate(inputs)), share_inputs=True, share_outputs=True)


def _compiled(model: Any, number_format: str) -> Any:
    import nncf
    import openvino
    from openvino._offline_transformations import apply_make_stateful_transformation

    config = model.config
    layers, heads = config.num_hidden_layers, config.num_key_value_heads
    past = [torch.randn(1, heads, 3, config.head_dim) for _ in range(2 * layers)]
    tokens = torch.full((1, 2), 3)
    example = (tokens, torch.arange(3, 5)[None], torch.zeros(1, 1, 2, 5), *past)
    found = openvino.convert_model(_WithCache(model).eval(), example_input=example)
    sizes = [[1, -1], [1, -1], [1, 1, -1, -1], *[[1, heads, -1, config.head_dim]] * len(past)]
    for given, shape in zip(found.inputs, sizes, strict=True):
        given.get_node().set_partial_shape(openvino.PartialShape(shape))
    states = {}
    for number, (given, kept) in enumerate(zip(found.inputs[3:], found.outputs[1:], strict=True)):
        given.set_names({f"past{number}"})
        kept.set_names({f"kept{number}"})
        states[f"past{number}"] = f"kept{number}"
    found.validate_nodes_and_infer_types()
    apply_make_stateful_transformation(found, states)
    bits = _BITS[number_format]
    if bits == 8:
        found = nncf.compress_weights(found, mode=nncf.CompressWeightsMode.INT8_SYM)
    elif bits == 4:
        found = nncf.compress_weights(
            found, mode=nncf.CompressWeightsMode.INT4_SYM, group_size=_GROUP, all_layers=True
        )
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "INFERENCE_PRECISION_HINT": "bf16" if number_format == "bf16" else "f32",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": str(_GROUP if number_format.startswith("a8") else 0),
        "KV_CACHE_PRECISION": "f32",
    }
    return openvino.Core().compile_model(found, "CPU", settings)
