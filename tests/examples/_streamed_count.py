"""A tiny model that streams: {"count": n} becomes n parts."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

from examples.serve.servable import BadRequest, fields


class Count:
    """Counts to a number; it fails at 13."""

    route = "/count"

    def __init__(self, form: str) -> None:
        self._seconds = float(form)

    def prepare(self) -> None:
        self.closed = 0

    def warm(self) -> None:
        pass

    def read(self, body: object) -> int:
        count = fields(body, ("count",))["count"]
        if not isinstance(count, int):
            raise BadRequest("count", "a number", repr(count))
        return count

    def answer(self, request: Any) -> dict[str, object]:
        return {"parts": list(self.stream(request))}

    def stream(self, request: Any) -> Iterator[dict[str, object]]:
        try:
            for number in range(request):
                if number == 13:
                    raise RuntimeError("thirteen")
                time.sleep(self._seconds)
                yield {"number": number, "closed": self.closed, "thread": threading.get_ident()}
        finally:
            self.closed += 1
