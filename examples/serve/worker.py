"""A worker process of the server: HTTP on an event loop, the model on a second thread."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass

from aiohttp import web

from examples.serve import smaps
from examples.serve.desk import MAX_BODY, TOO_LARGE, Desk, Reply, reply_to
from examples.serve.servable import Servable, Streaming

_BACKLOG = 1024


@dataclass(frozen=True)
class Limits:
    """Limits of a worker under load and at shutdown."""

    waiting: int = 16
    """Requests that may wait for the model; others get a 503."""
    grace: float = 20.0
    """Seconds that requests in flight have after SIGTERM."""


def run(
    servable: Servable,
    listening: socket.socket,
    cores: Sequence[int],
    limits: Limits,
    *,
    number: int = 0,
    when_ready: Callable[[], None] = lambda: None,
    lifeline: int | None = None,
) -> None:
    """Answers on `listening` with a thread for each of `cores`, until SIGTERM or SIGINT.

    `lifeline` is the read end of a pipe; when its other end is closed, the worker ends as on
    SIGTERM.
    """
    os.sched_setaffinity(0, cores)
    asyncio.run(_Worker(servable, cores, limits, number).serve(listening, when_ready, lifeline))


class _Worker:
    def __init__(
        self, servable: Servable, cores: Sequence[int], limits: Limits, number: int
    ) -> None:
        self._servable, self._cores, self._limits = servable, list(cores), limits
        self._number = number
        self._desk = Desk(servable, len(cores), limits.waiting)

    async def serve(
        self, listening: socket.socket, when_ready: Callable[[], None], lifeline: int | None
    ) -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, stop.set)
        if lifeline is not None:
            loop.add_reader(lifeline, _parent_ended, loop, lifeline, stop)
        await asyncio.wrap_future(self._desk.warm())
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_post(self._servable.route, self._post)
        app.router.add_get("/status", self._status)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=self._limits.grace)
        await runner.setup()
        # Accept one connection at a time, so that workers on the same socket get equally many.
        await web.SockSite(runner, listening, backlog=1).start()
        listening.listen(_BACKLOG)  # the kernel's own queue should be longer
        when_ready()
        await stop.wait()
        await runner.cleanup()
        self._desk.close()

    async def _post(self, request: web.Request) -> web.StreamResponse:
        try:
            raw = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return self._send(TOO_LARGE)
        if isinstance(self._servable, Streaming):
            return await self._stream(request, raw)
        return self._send(await self._desk.reply(raw))

    async def _stream(self, request: web.Request, raw: bytes) -> web.StreamResponse:
        """Sends each part of an answer as a line of JSON. A late error is the last line."""
        headers = {"X-Worker": str(self._number), "Content-Type": "application/x-ndjson"}
        response = web.StreamResponse(headers=headers)
        async with aclosing(self._desk.stream(raw)) as parts:
            try:
                async for part in parts:
                    if not response.prepared:
                        await response.prepare(request)
                    await response.write(_line(part))
            except ConnectionError:
                return response  # the client has disconnected
            except Exception as error:
                reply = reply_to(error)
                if not response.prepared:
                    return self._send(reply)
                await response.write(_line(reply.body))
        if not response.prepared:
            await response.prepare(request)
        await response.write_eof()
        return response

    async def _status(self, _: web.Request) -> web.Response:
        desk = self._desk
        body = {
            "pid": os.getpid(),
            "cores": self._cores,
            "answered": desk.answered,
            "refused": desk.refused,
            "failed": desk.failed,
            "memory_mib": asdict(smaps.of(os.getpid())),
        }
        return self._send(Reply(200, body))

    def _send(self, reply: Reply) -> web.Response:
        headers = {"X-Worker": str(self._number), **reply.headers}
        return web.json_response(reply.body, status=reply.status, headers=headers)


def _line(part: Mapping[str, object]) -> bytes:
    return json.dumps(part).encode() + b"\n"


def _parent_ended(loop: asyncio.AbstractEventLoop, lifeline: int, stop: asyncio.Event) -> None:
    loop.remove_reader(lifeline)
    stop.set()
