"""The 4- and 8-bit models of examples/int4: close to torchao's own results, and small."""

from __future__ import annotations

import pytest
import torch
from quant._engine import needs_plugin, off

from examples.int4.demo import FORMATS, Format, packed_bytes, quantized
from examples.minilm import minilm
from examples.minilm.sentences import SENTENCES

pytest.importorskip("torchao.quantization")
pytestmark = needs_plugin


@pytest.mark.parametrize("form", FORMATS, ids=lambda each: each.name)
def test_embeddings_are_torchaos(form: Format) -> None:
    model, tokens = minilm.load(), minilm.tokenize(SENTENCES[:8])
    made = quantized(model, form)
    vectors = minilm.embed(made, tokens)
    with off():
        by_torchao, floats = minilm.embed(made, tokens), minilm.embed(model, tokens)
    int8_rows = form.name.startswith("A8")
    assert float(minilm.cosines(vectors, by_torchao).min()) > (0.999 if int8_rows else 0.99999)
    assert float(minilm.cosines(vectors, floats).min()) > form.least_cosine
    weights = sum(
        each.weight.numel() for each in model.modules() if isinstance(each, torch.nn.Linear)
    )
    bits = 4 if "W4" in form.name else 8
    # A scale and a zero point of 40 bits for 32 codes.
    assert packed_bytes(made, tokens) <= weights * (bits + 40 / 32) / 8 * 1.02
