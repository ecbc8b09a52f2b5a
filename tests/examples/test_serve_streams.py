"""The server with models that answer in parts: turns, errors, clients that leave."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("aiohttp", reason="aiohttp is not installed (examples/serve/requirements.txt)")

from test_serve import Server, ask, serving, wait_for

from examples.serve import decoder

_PATIENCE = 100.0
_COUNT = ("--workers", "1", "--model", "_streamed_count:Count")


def _parts(running: Server, count: int) -> list[dict[str, Any]]:
    with urlopen(Request(running.url, b'{"count": %d}' % count), timeout=_PATIENCE) as response:
        assert response.headers["Content-Type"] == "application/x-ndjson"
        return [json.loads(line) for line in response]


def test_parts_and_errors() -> None:
    with serving(*_COUNT, form="0") as running:
        assert [each["number"] for each in _parts(running, 4)] == [0, 1, 2, 3]
        assert _parts(running, 0) == []
        status, answer, _ = ask(running.url, b'{"count": "a"}')
        assert (status, answer["field"]) == (400, "count")
        found = _parts(running, 20)
        assert len(found) == 14
        assert found[-1] == {"error": "the model failed: RuntimeError"}
        status, answer, _ = ask(running.url.replace("/count", "/status"), None)
        assert (answer["answered"], answer["failed"]) == (2, 1)


def test_streams_take_turns_on_one_thread() -> None:
    together = Barrier(2)

    def stream(running: Server) -> list[dict[str, Any]]:
        together.wait()
        return _parts(running, 8)

    with serving(*_COUNT, form="0.05") as running, ThreadPoolExecutor(2) as pool:
        found = [each.result() for each in [pool.submit(stream, running) for _ in range(2)]]
    assert len({part["thread"] for parts in found for part in parts}) == 1
    # None of them had ended when the other one was half done.
    assert [parts[4]["closed"] for parts in found] == [0, 0]


def test_a_client_that_leaves_ends_its_stream() -> None:
    with serving(*_COUNT, form="0.02") as running:
        response = urlopen(Request(running.url, b'{"count": 12}'), timeout=_PATIENCE)
        assert json.loads(response.readline())["number"] == 0
        response.close()
        wait_for(lambda: _parts(running, 1)[0]["closed"] >= 1)


@pytest.mark.parametrize("form", ["int3", "fp64:folder"])
def test_decoders_have_formats(form: str) -> None:
    with pytest.raises(ValueError, match=f"--form: expected one of fp32, .* got '{form}'"):
        decoder.Decoder(form)


def test_a_decoder_streams_what_it_generates() -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    import torch

    made = decoder.Decoder("fp32")
    made.prepare()
    request = made.read({"text": "no", "tokens": 5})
    parts = list(made.stream(request))
    expected = made._model.generate(
        torch.tensor([request.prompt]), max_new_tokens=5, do_sample=False
    )
    assert [part["token"] for part in parts] == expected[0, 2:].tolist()
    assert made.answer(request)["text"] == "".join(str(part["text"]) for part in parts)
