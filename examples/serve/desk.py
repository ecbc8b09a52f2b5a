"""A model's one thread, the bounded line of requests before it, and what each is answered."""

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
"""Bytes of a request."""


@dataclass(frozen=True)
class Reply:
    """An answer in HTTP, whatever library sends it."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


TOO_LARGE = Reply(413, BadRequest("body", f"at most {MAX_BODY} bytes", "more").as_json())


class Full(RuntimeError):
    """As many requests wait as may."""


class Desk:
    """Answers requests one after the other, in the order they came; used from one event loop."""

    def __init__(self, servable: Servable, threads: int, waiting_at_most: int) -> None:
        self.servable = servable
        self.answered = self.refused = self.failed = 0
        self._room = 1 + waiting_at_most
        self._inside = 0
        # OpenMP's number of threads belongs to the thread that asks for them.
        self._model = ThreadPoolExecutor(1, "model", torch.set_num_threads, (threads,))

    def warm(self) -> "Future[None]":
        """Begins what the model runs before its first request."""
        return self._model.submit(self.servable.warm)

    async def reply(self, raw: bytes) -> Reply:
        """What a request is answered whose body is `raw`, also when it is wrong."""
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
        """What the model answers.

        Raises:
            Full: the line is.
        """
        if self._inside == self._room:
            self.refused += 1
            raise Full(f"{self._room - 1} requests wait, and no more may")
        loop = asyncio.get_running_loop()
        self._inside += 1
        work: Future[dict[str, object]] = self._model.submit(self.servable.answer, request)
        # Also when nobody waits for the answer any more: the place is free when the work is done.
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
        """Ends the thread when it has done what was asked of it."""
        self._model.shutdown()
