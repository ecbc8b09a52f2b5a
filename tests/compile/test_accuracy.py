"""Accuracy of compiled int8 models on real input: scikit-learn's digits, and MiniLM's sentences."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.ao.quantization import QConfigMapping, per_channel_dynamic_qconfig
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

from compile._compiled import needs_onednn
from cpuaccel.compile.common import report
from examples.minilm import minilm
from examples.minilm.sentences import SENTENCES

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples" / "digits_int8"))

import digits

pytestmark = needs_onednn

_MOST_LOST = 0.005
_LEAST_COSINE = 0.98


@pytest.fixture(autouse=True)
def _engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.quantized, "engine", "x86")
    torch._dynamo.reset()
    report.clear()


def _kinds() -> list[str]:
    return [kind for one in report.reports() for part in one.kinds() for kind in part]


def test_digits_are_read_as_well_as_in_fp32() -> None:
    data = digits.load()
    net = digits.train(data)
    model = torch.compile(digits.quantize(net, data.train_images), backend="cpuaccel")
    assert digits.accuracy(model, data) >= digits.accuracy(net, data) - _MOST_LOST
    assert _kinds().count("q_conv") == 4


def test_sentences_are_where_fp32_has_them() -> None:
    model = minilm.load()
    tokens = minilm.tokenize(SENTENCES)
    expected = minilm.embed(model, tokens)
    with torch.no_grad():
        compiled = torch.compile(_dynamic(model, tokens), backend="cpuaccel", fullgraph=True)
        found = minilm.embed(compiled, tokens)
    assert float(minilm.cosines(found, expected).min()) >= _LEAST_COSINE
    # Four projections of attention and the first of the two linear layers after it, in six layers.
    assert _kinds().count("q_linear_dynamic") == 30


def _dynamic(model: nn.Module, tokens: minilm.Tokens) -> nn.Module:
    """Layers after a GELU stay fp32, as in the example."""
    mapping = QConfigMapping().set_object_type(nn.Linear, per_channel_dynamic_qconfig)
    mapping.set_module_name_regex(r"(?!.*attention).*output\.dense", None)
    prepared = prepare_fx(model, mapping, (tokens.numbers, tokens.mask))
    converted: nn.Module = convert_fx(prepared)
    return converted
