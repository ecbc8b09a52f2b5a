"""The least time of a decoder step, from the bytes that it reads."""

import importlib

import torch

from benchmarks import _gpt
from benchmarks._timing import Contender
from benchmarks.models.comparison.cases import BF16, Case


def bytes_of(case: Case) -> int:
    """The bytes that a step of `case` reads, each of them once.

    They are the weights, biases and norms of every layer and the cache, in the type of the case
    (int8: weights in 8 bits, all else in float32).
    """
    weight, other = (2, 2) if case.type == BF16 else (1, 4)
    with torch.device("meta"):
        model = _gpt.GptStep(_gpt.CONFIGS[case.model], case.batch, case.tokens)
    return _gpt.bytes_read(model, weight, other)


def reading(case: Case) -> Contender:
    """A contender that reads as many bytes on torch's threads, timed in turns with the columns.

    It finds the caches as the columns do: filled by the other contenders and by its own last call.
    """
    native = importlib.import_module("cpuaccel._native").load()
    return Contender(native.reading(bytes_of(case)))
