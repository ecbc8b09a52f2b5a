"""The requests that MiniLM gets under load, and the comparison of answers with eager torch."""

import functools
import json
from collections.abc import Iterable

import torch
from torch import Tensor

import cpuaccel
from examples.minilm import minilm
from examples.minilm.sentences import SENTENCES


def bodies() -> list[bytes]:
    """One request body for each sentence."""
    return [json.dumps({"text": each}).encode() for each in SENTENCES]


@functools.cache
def reference() -> Tensor:
    """Their embeddings by eager fp32, without cpuaccel."""
    on = cpuaccel.is_enabled()
    if on:
        cpuaccel.disable()
    try:
        return minilm.embed(minilm.load(), minilm.tokenize(SENTENCES))
    finally:
        if on:
            cpuaccel.enable()


def least_cosine(answers: Iterable[tuple[int, bytes]]) -> float:
    """The smallest cosine of an answer with its reference; -1 if there is no answer."""
    found = [(which, json.loads(body)["embedding"]) for which, body in answers]
    if not found:
        return -1.0
    vectors = torch.tensor([vector for _, vector in found])
    expected = reference()[torch.tensor([which for which, _ in found])]
    return float(minilm.cosines(vectors, expected).min())
