"""The request queue of a worker: one model thread, a bounded queue before it, and HTTP replies."""

import asyncio
import sys
import traceback
from collections.abc import AsyncIterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch

from examples.serve.servable import BadRequest, Servable, Streaming, parse_json

MAX_BODY = 1 << 16
"""Largest request body in bytes."""


@dataclass(frozen=True)
class Reply:
    """An HTTP reply, independent of the library that sends it."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


TOO_LARGE = Reply(413, BadRequest("body", f"at most {MAX_BODY} bytes", "more").as_json())


class Full(RuntimeError):
    """The queue of waiting requests is full."""


class Desk:
    """Answers requests one at a time, in order of arrival; used from one event loop.

    Streams take turns: the model's thread makes one part of each.
    """

    def __init__(self, servable: Servable, threads: int, waiting_at_most: int) -> None:
        self.servable = servable
        self.answered = self.refused = self.failed = 0
        self._room = 1 + waiting_at_most
        self._inside = 0
        # OpenMP's number of threads is a setting of the thread that starts parallel regions.
        self._model = ThreadPoolExecutor(1, "model", torch.set_num_threads, (threads,))

    def warm(self) -> "Future[None]":
        """Starts the model's warmup, which runs before its first request."""
        return self._model.submit(self.servable.warm)

    async def reply(self, raw: bytes) -> Reply:
        """The reply to a request whose body is `raw`, including errors."""
        if len(raw) > MAX_BODY:
            return TOO_LARGE
        try:
            return Reply(200, await self.answer(self.servable.read(parse_json(raw))))
        except Exception as error:
            return reply_to(error)

    async def stream(self, raw: bytes) -> AsyncIterator[dict[str, object]]:
        """The parts of the answer to a request whose body is `raw`, from a `Streaming` model.

        It raises what the model and the queue raise; `reply_to` has the reply to that.
        """
        assert isinstance(self.servable, Streaming)
        request = self.servable.read(parse_json(raw))
        self._enter()
        loop = asyncio.get_running_loop()
        parts = self.servable.stream(request)
        try:
            while (part := await loop.run_in_executor(self._model, next, parts, None)) is not None:
                yield part
        except Exception:
            self.failed += 1
            raise
        else:
            self.answered += 1
        finally:
            # The client may have left while a part is made. The stream is closed after that.
            end = self._model.submit(getattr(parts, "close", lambda: None))
            end.add_done_callback(lambda _: loop.call_soon_threadsafe(self._leave))

    async def answer(self, request: Any) -> dict[str, object]:
        """Runs the model on a request.

        Raises:
            Full: the queue is full.
        """
        self._enter()
        loop = asyncio.get_running_loop()
        work: Future[dict[str, object]] = self._model.submit(self.servable.answer, request)
        # Runs even if the client has disconnected: the place is free only when the work is done.
        work.add_done_callback(lambda _: loop.call_soon_threadsafe(self._leave))
        try:
            answer = await asyncio.wrap_future(work)
        except Exception:
            self.failed += 1
            raise
        self.answered += 1
        return answer

    def _enter(self) -> None:
        if self._inside == self._room:
            self.refused += 1
            raise Full(f"{self._room - 1} requests wait, and no more may")
        self._inside += 1

    def _leave(self) -> None:
        self._inside -= 1

    def close(self) -> None:
        """Ends the thread when all accepted work is done."""
        self._model.shutdown()


def reply_to(error: Exception) -> Reply:
    """The reply to a request that raised `error`; called where it is handled."""
    if isinstance(error, BadRequest):
        return Reply(400, error.as_json())
    if isinstance(error, Full):
        return Reply(503, {"error": f"busy: {error}; try again"}, {"Retry-After": "1"})
    with suppress(OSError):
        traceback.print_exc(file=sys.stderr)
    return Reply(500, {"error": f"the model failed: {type(error).__name__}"})
