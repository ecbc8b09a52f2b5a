"""What a decoder step takes at least, by the bytes that it reads."""

import importlib

import torch

from benchmarks import _gpt
from benchmarks.models.comparison.cases import BF16, Case

_REPEATS = 3


class Bound:
    """The least time of a step, at the bandwidth measured on torch's threads.

    The bytes are those of every layer's weights, biases and norms and of the cache, in the type of
    the case (int8: weights in 8 bits, all else in float32), each read once.
    """

    def __init__(self, case: Case) -> None:
        weight, other = (2, 2) if case.type == BF16 else (1, 4)
        with torch.device("meta"):
            model = _gpt.GptStep(_gpt.CONFIGS[case.model], case.batch, case.tokens)
        self.bytes = _gpt.bytes_read(model, weight, other)
        self._seconds_to_read: list[float] = []

    def measure(self) -> None:
        """Measures the bandwidth; the fastest of all measurements counts."""
        native = importlib.import_module("cpuaccel._native").load()
        for _ in range(_REPEATS):
            peaks = native.machine_peaks(float(self.bytes))
            self._seconds_to_read.append(peaks["seconds_to_read"])

    @property
    def seconds(self) -> float:
        """The least time of a step, seconds."""
        return self.bytes * min(self._seconds_to_read)
