"""all-MiniLM-L6-v2 embeds a real sentence as on x86, in every mode."""

from __future__ import annotations

import functools
import json

import pytest
import torch
from _settings import setting

from aarch64.minilm_x86 import FILE
from examples.minilm import minilm
from examples.minilm.bert import Bert
from examples.minilm.minilm import MODES, Mode
from examples.minilm.sentences import SENTENCES

_LEAST = {"fp32": 0.9999, "fast math": 0.999, "bf16 autocast": 0.999, "dynamic int8": 0.98}


@functools.cache
def _model() -> Bert:
    return minilm.load()


@pytest.mark.parametrize("provider", ["auto", "cpuaccel"])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_as_on_x86(mode: Mode, provider: str) -> None:
    torch.backends.quantized.engine = "onednn"
    with setting("matmul_provider", provider):
        vectors = mode.runner(_model(), minilm.tokenize(SENTENCES[:1]))()
    reference = torch.tensor([json.loads(FILE.read_text())])
    assert float(minilm.cosines(vectors, reference)) >= _LEAST[mode.name]
