"""What is asked of MiniLM under load, and how near the answers are to torch's own."""

import functools
import json
from collections.abc import Iterable

import torch
from torch import Tensor

import cpuaccel
from examples.minilm import minilm
from examples.minilm.sentences import SENTENCES


def bodies() -> list[bytes]:
    """A request for each of the sentences."""
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
    """The cosine to the reference of the answer that is farthest from it; -1 if there is none."""
    found = [(which, json.loads(body)["embedding"]) for which, body in answers]
    if not found:
        return -1.0
    vectors = torch.tensor([vector for _, vector in found])
    expected = reference()[torch.tensor([which for which, _ in found])]
    return float(minilm.cosines(vectors, expected).min())
