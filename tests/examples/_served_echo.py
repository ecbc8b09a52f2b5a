"""A tiny model to serve: {"numbers": [4 of them]} becomes their product with a fixed matrix."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import torch

import cpuaccel
from examples.serve.servable import BadRequest, fields

SIZE = 4


def weights() -> torch.Tensor:
    """Powers of two, so that sums are exact."""
    return 2.0 ** torch.arange(float(SIZE * SIZE)).reshape(SIZE, SIZE).remainder(7)


class Echo:
    """Answers slowly in the form "slow"; a request that begins with "die" ends its worker."""

    route = "/echo"

    def __init__(self, form: str) -> None:
        if form not in ("quick", "quick with plugin", "slow", "dies at once"):
            raise ValueError(f"--form: expected quick, slow or 'dies at once', got {form!r}")
        self._form = form

    def prepare(self) -> None:
        self._weights = weights()

    def warm(self) -> None:
        if self._form == "dies at once":
            os._exit(7)
        self.answer([0.0] * SIZE)

    def read(self, body: object) -> list[float]:
        numbers = fields(body, ("numbers",))["numbers"]
        if not isinstance(numbers, list) or len(numbers) != SIZE:
            raise BadRequest("numbers", f"a list of {SIZE} numbers", repr(numbers)[:40])
        return numbers

    def answer(self, request: Any) -> dict[str, object]:
        if request[0] == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if self._form == "slow":
            time.sleep(0.4)
        vector = torch.tensor(request, dtype=torch.float32) @ self._weights
        answer: dict[str, object] = {"sums": vector.tolist(), "threads": torch.get_num_threads()}
        if self._form == "quick with plugin":
            answer["plugin"] = "on" if cpuaccel.is_enabled() else "off"
        return answer
