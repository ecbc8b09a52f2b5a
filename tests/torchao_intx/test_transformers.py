"""Causal language models that Hugging Face's TorchAoConfig quantizes while it loads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from quant._engine import counted, needs_plugin, off
from torch import Tensor
from torch.testing import assert_close

import cpuaccel

quantization = pytest.importorskip("torchao.quantization", reason="torchao is not installed")
try:
    from transformers import AutoModelForCausalLM, LlamaConfig, TorchAoConfig
except (ImportError, RuntimeError) as error:
    pytest.skip(f"transformers cannot be imported: {error}", allow_module_level=True)

pytestmark = needs_plugin

_LAYERS = 14
"""Seven linear layers in each of two blocks; lm_head stays float."""


def _configs() -> dict[str, tuple[Any, str, str]]:
    """A config, the kernel of its layers and the op that counts them."""
    four_bits = {"weight_dtype": torch.int4}
    groups = quantization.PerGroup(32)
    return {
        "Int8WeightOnly": (
            quantization.Int8WeightOnlyConfig(set_inductor_config=False),
            "gemm_w8",
            "packed_linear",
        ),
        "Int8DynamicActivationInt8Weight": (
            quantization.Int8DynamicActivationInt8WeightConfig(),
            "qgemm",
            "linear_dynamic",
        ),
        "IntxWeightOnly": (
            quantization.IntxWeightOnlyConfig(granularity=groups, **four_bits),
            "gemm_wq",
            "packed_linear",
        ),
        "Int8DynamicActivationIntxWeight": (
            quantization.Int8DynamicActivationIntxWeightConfig(
                weight_granularity=groups, **four_bits
            ),
            "qgemm_wq",
            "linear_dynamic",
        ),
    }


_CONFIGS = _configs()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a tiny Llama with random weights."""
    path = tmp_path_factory.mktemp("llama")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=96,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=False,
    )
    AutoModelForCausalLM.from_config(config).save_pretrained(path)
    return path


def _load(path: Path, config: Any, dtype: torch.dtype) -> Any:
    quantizing = {} if config is None else {"quantization_config": TorchAoConfig(config)}
    return AutoModelForCausalLM.from_pretrained(path, dtype=dtype, **quantizing).eval()


_TOKENS = torch.arange(12).reshape(1, 12) * 7 % 96


def _generate(model: Any) -> Tensor:
    tokens: Tensor = model.generate(_TOKENS, max_new_tokens=4, do_sample=False)
    return tokens


@pytest.mark.parametrize("name", _CONFIGS)
@torch.no_grad()
def test_every_layer_runs_on_its_kernel(name: str, folder: Path, tmp_path: Path) -> None:
    config, kernel, op = _CONFIGS[name]
    model = _load(folder, config, torch.float32)
    rows = [row for row in cpuaccel.explain(model).rows if row.provider == "cpuaccel"]
    assert [row.kernel for row in rows] == [kernel] * _LAYERS
    with counted() as counts:
        logits = model(_TOKENS).logits
    assert counts.calls[f"{op}.cpuaccel"] == _LAYERS
    assert not [reason for reason in counts.fallbacks if "linear" in reason]
    with counted() as counts:
        tokens = _generate(model)
    assert counts.calls[f"{op}.cpuaccel"] == 4 * _LAYERS
    with off():
        expected = model(_TOKENS).logits
        assert torch.equal(_generate(model), tokens)
    # An integer of a row that lies between two may be rounded to the other.
    assert_close(logits, expected, rtol=0, atol=1e-4 if op == "packed_linear" else 5e-3)
    model.save_pretrained(tmp_path)
    assert torch.equal(_load(tmp_path, None, torch.float32)(_TOKENS).logits, logits)


@pytest.mark.parametrize("name", _CONFIGS)
@torch.no_grad()
def test_bfloat16(name: str, folder: Path) -> None:
    config, _, op = _CONFIGS[name]
    model = _load(folder, config, torch.bfloat16)
    with counted() as counts:
        logits = model(_TOKENS).logits
    assert counts.calls[f"{op}.cpuaccel"] == _LAYERS
    with off():
        expected = model(_TOKENS).logits
    assert_close(logits, expected, rtol=0, atol=0.05 * float(expected.abs().max()))
