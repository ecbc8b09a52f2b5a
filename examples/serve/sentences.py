"""all-MiniLM-L6-v2 behind a server: {"text": ...} becomes {"embedding": [384 numbers]}.

A text is padded to one of a few lengths, so that each worker meets few sizes and has run all of
them before its first request. Padding is masked and changes no embedding, except in int8, whose
ranges are taken over all tokens.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import nn

import cpuaccel
from examples.minilm import minilm
from examples.minilm.minilm import Tokens
from examples.serve.servable import fields, text

LENGTHS = (16, 32, 64, 128, 256)
_CHARACTERS = 4096


@dataclass(frozen=True)
class Form:
    """How the fp32 model is prepared, and how close to it the embeddings must be."""

    least_cosine: float
    make: Callable[[nn.Module], nn.Module]
    plugin: bool = False
    """Whether it needs cpuaccel."""


def _optimize(model: nn.Module) -> nn.Module:
    # torch.export shows progress with tqdm if installed, which would start a monitor thread.
    with suppress(ImportError):
        from tqdm import tqdm

        tqdm.monitor_interval = 0
    first = _empty(LENGTHS[0])
    optimized: nn.Module = cpuaccel.optimize(model, (first.numbers, first.mask))
    return optimized


def _prepack(model: nn.Module) -> nn.Module:
    packed: nn.Module = cpuaccel.prepack(model)
    return packed


FORMS = {
    "fp32": Form(0.9999, lambda model: model),
    "prepacked": Form(0.9999, _prepack, plugin=True),
    "optimized": Form(0.9999, _optimize, plugin=True),
    "int8": Form(0.98, minilm.quantize),
}


class Sentences:
    """The model in one of FORMS."""

    route = "/embed"

    def __init__(self, form: str) -> None:
        if form not in FORMS:
            raise ValueError(f"--form: expected one of {', '.join(FORMS)}, got {form!r}")
        if FORMS[form].plugin and not cpuaccel.is_enabled():
            raise ValueError(f"--form {form}: expected cpuaccel to be on, and it is off")
        self._form = FORMS[form]
        self._model: nn.Module = nn.Identity()

    def prepare(self) -> None:
        """Loads weights and tokenizer, and runs each length, which packs the weights."""
        torch.backends.quantized.engine = "x86" if "x86" in _engines() else "onednn"
        self._tokenizer = minilm.tokenizer()
        self._model = self._form.make(minilm.load())
        self.warm()

    def warm(self) -> None:
        """Runs each length twice: the second time with what the first one cached."""
        for length in (*LENGTHS, *LENGTHS):
            minilm.embed(self._model, _empty(length))

    def read(self, body: object) -> str:
        """The text of a request."""
        return text("text", fields(body, ("text",))["text"], _CHARACTERS)

    def answer(self, request: str) -> dict[str, object]:
        """The embedding, and the number of tokens (those beyond the longest length are dropped)."""
        numbers = self._tokenizer.encode(request).ids
        vector = minilm.embed(self._model, _filled_up(numbers))[0]
        return {"embedding": vector.tolist(), "tokens": len(numbers)}


def _filled_up(numbers: list[int]) -> Tokens:
    length = next(each for each in LENGTHS if each >= len(numbers))
    tokens = _empty(length)
    tokens.numbers[0, : len(numbers)] = torch.tensor(numbers)
    tokens.mask[0, len(numbers) :] = False
    return tokens


def _empty(length: int) -> Tokens:
    return Tokens(
        torch.zeros(1, length, dtype=torch.int64), torch.ones(1, length, dtype=torch.bool)
    )


def _engines() -> list[str]:
    return list(torch.backends.quantized.supported_engines)
