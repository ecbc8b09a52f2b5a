"""A decoder of transformers behind a server: {"text": ..., "tokens": 20} becomes a line a token.

    python examples/serve/server.py --model examples.serve.decoder:Decoder --form a16w8:PATH
    curl -N -d '{"text": "Once upon a time", "tokens": 20}' http://127.0.0.1:8080/generate

PATH is the folder of a model and its tokenizer. Without it, a small decoder with random weights
continues the bytes of a text. Each request decodes alone, one token in its turn; vLLM and SGLang
batch the steps of several requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import torch

import cpuaccel
from examples.serve.servable import BadRequest, fields, text

FORMATS = ("fp32", "bf16", "a16w8", "a8w8")
"""Weights of 32, 16 or 8 bits; a8: rows are rounded to 8 bits too."""
MAX_TOKENS = 1024
_CHARACTERS = 4096


@dataclass(frozen=True)
class Request:
    """The token numbers of a prompt, and the most tokens to add."""

    prompt: list[int]
    tokens: int


class Tokenizer(Protocol):
    """What the server needs of a tokenizer of transformers."""

    eos_token_id: int | None

    def encode(self, text: str) -> list[int]: ...
    def decode(self, numbers: list[int]) -> str: ...


class Decoder:
    """Greedy decoding by `cpuaccel.optimize(model)`, or by the model where cpuaccel is off."""

    route = "/generate"

    def __init__(self, form: str) -> None:
        self._format, _, self._path = form.partition(":")
        if self._format not in FORMATS:
            raise ValueError(f"--form: expected one of {', '.join(FORMATS)}, got {form!r}")

    def prepare(self) -> None:
        """Loads, quantizes and optimizes the model, and makes the captures that workers share."""
        # torch.export shows progress with tqdm if installed, which would start a monitor thread.
        with suppress(ImportError):
            from tqdm import tqdm

            tqdm.monitor_interval = 0
        model, self._tokenizer = _loaded(self._path, self._format)
        self._model: Any = cpuaccel.optimize(model) if cpuaccel.is_enabled() else model
        self.warm()

    def warm(self) -> None:
        """Runs prompts of two lengths and their steps, twice."""
        for length in (3, 7, 3, 7):
            list(self.stream(Request([1] * length, 4)))

    def read(self, body: object) -> Request:
        """The prompt and the number of tokens of a request."""
        given = fields(body, ("text", "tokens"))
        tokens = given["tokens"]
        if type(tokens) is not int or not 1 <= tokens <= MAX_TOKENS:
            raise BadRequest("tokens", f"a number from 1 to {MAX_TOKENS}", repr(tokens)[:20])
        return Request(self._tokenizer.encode(text("text", given["text"], _CHARACTERS)), tokens)

    def answer(self, request: Request) -> dict[str, object]:
        """All tokens at once."""
        return {"text": "".join(str(part["text"]) for part in self.stream(request))}

    def stream(self, request: Request) -> Iterator[dict[str, object]]:
        """Each token, and the text that it adds; no text while a character is incomplete."""
        from transformers import DynamicCache

        cache = DynamicCache(config=self._model.config)
        given, made, shown = torch.tensor([request.prompt]), list[int](), ""
        for _ in range(request.tokens):
            # Not around `yield`: other streams run on this thread meanwhile.
            with torch.no_grad():
                output = self._model(input_ids=given, past_key_values=cache, logits_to_keep=1)
            number = int(output.logits[0, -1].argmax())
            if number == self._tokenizer.eos_token_id:
                return
            made.append(number)
            decoded = self._tokenizer.decode(made)
            added = "" if decoded.endswith("\ufffd") else decoded[len(shown) :]
            shown += added
            yield {"token": number, "text": added}
            given = torch.tensor([[number]])


class _Bytes:
    """A tokenizer whose tokens are the bytes of a text."""

    eos_token_id = None

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, numbers: list[int]) -> str:
        return bytes(numbers).decode(errors="replace")


def _loaded(path: str, number_format: str) -> tuple[Any, Tokenizer]:
    import transformers

    dtype = torch.bfloat16 if number_format == "bf16" else torch.float32
    tokenizer: Any
    if path:
        model: Any = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=dtype)
        tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    else:
        torch.manual_seed(0)
        sizes = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2}
        config = transformers.LlamaConfig(vocab_size=256, num_attention_heads=4, **sizes)
        model, tokenizer = transformers.LlamaForCausalLM(config).to(dtype), _Bytes()
    model = model.eval().requires_grad_(False)
    if number_format.endswith("w8"):
        import torchao.quantization as torchao

        rows_too = number_format == "a8w8"
        config = (
            torchao.Int8DynamicActivationInt8WeightConfig()
            if rows_too
            else torchao.Int8WeightOnlyConfig()
        )
        torchao.quantize_(model, config)
    return model, tokenizer
