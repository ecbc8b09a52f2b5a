"""The request queue of a worker: one model thread, a bounded queue before it, and HTTP replies."""

import asyncio
import sys
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch

from examples.serve.servable import BadRequest, Servable, parse_json

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
    """Answers requests one at a time, in order of arrival; used from one event loop."""

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
        except BadRequest as error:
            return Reply(400, error.as_json())
        except Full as error:
            return Reply(503, {"error": f"busy: {error}; try again"}, {"Retry-After": "1"})
        except Exception as error:
            with suppress(OSError):
                traceback.print_exc(file=sys.stderr)
            return Reply(500, {"error": f"the model failed: {type(error).__name__}"})

    async def answer(self, request: Any) -> dict[str, object]:
        """Runs the model on a request.

        Raises:
            Full: the queue is full.
        """
        if self._inside == self._room:
            self.refused += 1
            raise Full(f"{self._room - 1} requests wait, and no more may")
        loop = asyncio.get_running_loop()
        self._inside += 1
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

    def _leave(self) -> None:
        self._inside -= 1

    def close(self) -> None:
        """Ends the thread when all accepted work is done."""
        self._model.shutdown()
