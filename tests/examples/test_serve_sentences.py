"""MiniLM behind the server: embeddings close to torch's fp32 in every form, with any padding."""

from __future__ import annotations

import pytest
import torch
from quant._engine import needs_plugin, off

from examples.minilm import minilm
from examples.minilm.sentences import SENTENCES
from examples.serve import answers, sentences
from examples.serve.sentences import FORMS, Sentences

pytestmark = needs_plugin


@pytest.mark.parametrize("form", FORMS)
def test_answers_are_near(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences, "LENGTHS", (32,))
    served = Sentences(form)
    served.prepare()
    found = [served.answer(served.read({"text": each})) for each in SENTENCES[:6]]
    vectors = torch.tensor([each["embedding"] for each in found])
    least = float(minilm.cosines(vectors, answers.reference()[:6]).min())
    assert least >= FORMS[form].least_cosine
    assert all(10 < each["tokens"] < 32 for each in found)  # type: ignore[operator]


def test_long_texts_end_where_the_model_does(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Sentences("fp32")
    monkeypatch.setattr(sentences.Sentences, "warm", lambda self: None)
    served.prepare()
    text = "tram " * 600
    answer = served.answer(served.read({"text": text}))
    assert answer["tokens"] == sentences.LENGTHS[-1]
    expected = minilm.embed(minilm.load(), minilm.tokenize([text]))
    found = torch.tensor([answer["embedding"]])
    assert float(minilm.cosines(found, expected)) > 1 - 1e-6


def test_forms_that_there_are_not() -> None:
    with pytest.raises(ValueError, match=r"--form: expected one of fp32, .*, got 'fp8'"):
        Sentences("fp8")
    with off(), pytest.raises(ValueError, match="expected cpuaccel to be on, and it is off"):
        Sentences("prepacked")
