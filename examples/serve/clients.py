"""Closed-loop load clients: threads that each have one request in flight."""

import http.client
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_PATIENCE = 30.0


@dataclass(frozen=True)
class Target:
    """The address of a server."""

    host: str
    port: int
    path: str

    @classmethod
    def of(cls, url: str) -> "Target":
        """Parses http://HOST:PORT/PATH.

        Raises:
            ValueError: `url` is not of this form.
        """
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.port is None or not parts.path:
            raise ValueError(f"url: expected http://HOST:PORT/PATH, got {url!r}")
        return cls(parts.hostname, parts.port, parts.path)


@dataclass(frozen=True)
class Load:
    """The number of clients, and the seconds that they run after `warm` uncounted seconds."""

    clients: int
    seconds: float
    warm: float = 1.0
    fresh: bool = True
    """A new connection for each request, instead of one for each client and server."""


@dataclass
class Result:
    """What the clients measured in the counted time."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    answers: list[tuple[int, bytes]] = field(default_factory=list)
    """The number of each request, and the body of its answer."""
    workers: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    """503 answers: the server was busy, and the client waited as long as it was told to."""
    errors: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    """Servers that did not answer, so that the request went to the next one."""

    def add(self, other: "Result") -> None:
        """Adds the result of another client."""
        self.latencies += other.latencies
        self.answers += other.answers
        self.workers += other.workers
        self.refused += other.refused
        self.errors += other.errors
        self.left += other.left


def run(targets: Sequence[Target], bodies: Sequence[bytes], load: Load) -> Result:
    """Runs the clients; they send `bodies` in turn, each starting at a different one."""
    start = time.perf_counter() + load.warm
    clients = [
        _Client(number, targets, bodies, load.fresh, start, start + load.seconds)
        for number in range(load.clients)
    ]
    for client in clients:
        client.start()
    result = Result(load.seconds)
    for client in clients:
        client.join()
        result.add(client.seen)
    return result


class _Client(threading.Thread):
    def __init__(
        self,
        number: int,
        targets: Sequence[Target],
        bodies: Sequence[bytes],
        fresh: bool,
        start: float,
        end: float,
    ) -> None:
        super().__init__(name=f"client {number}", daemon=True)
        self.seen = Result()
        self._number, self._targets, self._bodies = number, targets, bodies
        self._fresh, self._start_at, self._end = fresh, start, end
        self._connections: dict[int, http.client.HTTPConnection] = {}

    def run(self) -> None:
        turn = self._number
        while (sent := time.perf_counter()) < self._end:
            which = turn % len(self._bodies)
            response = self._ask(turn, self._bodies[which])
            now = time.perf_counter()
            if self._start_at <= sent and now < self._end:
                self._count(which, response, now - sent)
            if response is None:
                time.sleep(0.05)  # no server answers: retry, but not in a busy loop
            elif response.status == 503:
                time.sleep(max(0.0, min(float(response.retry_after), self._end - now)))
            turn += 1
        for connection in self._connections.values():
            connection.close()

    def _ask(self, turn: int, body: bytes) -> "_Response | None":
        """Asks the server whose turn it is, or the next that answers; None if there is none."""
        for tried in range(len(self._targets)):
            place = (turn + tried) % len(self._targets)
            try:
                return self._post(place, body)
            except (OSError, http.client.HTTPException):
                self._close(place)
                target = self._targets[place]
                self.seen.left[f"{target.host}:{target.port}"] += 1
        return None

    def _post(self, place: int, body: bytes) -> "_Response":
        target = self._targets[place]
        connection = self._connections.get(place)
        kept = connection is not None
        if connection is None:
            connection = http.client.HTTPConnection(target.host, target.port, timeout=_PATIENCE)
            self._connections[place] = connection
        try:
            response = _post(connection, target.path, body)
        except (ConnectionError, http.client.BadStatusLine):
            if not kept:
                raise
            # A server may close an idle connection at any time; that is not yet a failure.
            self._close(place)
            return self._post(place, body)
        if self._fresh or response.closes:
            self._close(place)
        return response

    def _close(self, place: int) -> None:
        connection = self._connections.pop(place, None)
        if connection is not None:
            connection.close()

    def _count(self, which: int, response: "_Response | None", seconds: float) -> None:
        if response is None:
            self.seen.errors["no server answers"] += 1
        elif response.status == 200:
            self.seen.latencies.append(seconds)
            self.seen.answers.append((which, response.body))
            self.seen.workers[response.worker] += 1
        elif response.status == 503:
            self.seen.refused += 1
        else:
            self.seen.errors[f"{response.status}: {response.body[:200]!r}"] += 1


@dataclass(frozen=True)
class _Response:
    status: int
    body: bytes
    worker: str
    retry_after: str
    closes: bool


def _post(connection: http.client.HTTPConnection, path: str, body: bytes) -> _Response:
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    return _Response(
        response.status,
        answer,
        response.getheader("X-Worker", "?"),
        response.getheader("Retry-After", "1"),
        response.will_close,
    )
