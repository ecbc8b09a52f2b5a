"""Prepares a model once, forks workers that share it, and restarts workers that die."""

import gc
import json
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from examples.serve import smaps, worker
from examples.serve.servable import Servable

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
_LOOK = 0.2
_DEATHS = 3
"""The server ends if a worker dies this often in succession, too early or before it was ready."""
_SOON = 10.0


@dataclass
class _Place:
    """A set of cores, and the process that currently uses it."""

    number: int
    cores: tuple[int, ...]
    pid: int = 0
    ready: bool = False
    started: float = 0.0
    pipe: int = -1
    deaths: int = field(default=0)


class Supervisor:
    """Workers of one model on one socket, each with its own set of cores.

    All workers accept from the parent's socket. A connection that is not yet accepted belongs to no
    worker, so no connection is lost with one.
    """

    def __init__(
        self,
        servable: Servable,
        listening: socket.socket,
        cores: Sequence[tuple[int, ...]],
        limits: worker.Limits,
        patience: float = 120.0,
    ) -> None:
        self._servable, self._listening, self._limits = servable, listening, limits
        self._places = [_Place(number, each) for number, each in enumerate(cores)]
        self._patience = patience
        self._said_ready = False
        self._failed = ""
        self._lifeline = os.pipe()

    def run(self) -> int:
        """Serves until SIGTERM or SIGINT; returns an exit code, 0 if no request was cut off."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            self._servable.prepare()
            check_one_thread()
            # Frozen objects are not visited by the garbage collector, whose marks would unshare
            # their pages.
            gc.collect()
            gc.freeze()
            for place in self._places:
                self._fork(place)
            while not self._failed:
                arrived = signal.sigtimedwait(_SIGNALS, _LOOK)
                if arrived and arrived.si_signo != signal.SIGCHLD:
                    break
                self._look()
            if self._failed:
                print(f"serve: {self._failed}; the server stops", file=sys.stderr, flush=True)
            return self._stop()
        finally:
            for place in self._places:  # none are left, except after an error
                self._kill(place)

    def _fork(self, place: _Place) -> None:
        check_one_thread()
        sys.stdout.flush()
        sys.stderr.flush()
        reading, writing = os.pipe()
        place.ready, place.started, place.pipe = False, time.monotonic(), reading

        def when_ready() -> None:
            os.write(writing, b"r")
            os.close(writing)

        place.pid = os.fork()
        if place.pid == 0:
            code = 1
            try:
                os.close(reading)
                os.close(self._lifeline[1])  # the parent's end; it closes when the parent ends
                signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
                worker.run(
                    self._servable,
                    self._listening,
                    place.cores,
                    self._limits,
                    number=place.number,
                    when_ready=when_ready,
                    lifeline=self._lifeline[0],
                )
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                with suppress(OSError, ValueError):
                    sys.stderr.flush()
                os._exit(code)
        os.close(writing)
        os.set_blocking(reading, False)

    def _look(self) -> None:
        for place in self._places:
            self._look_for_ready(place)
            if place.pid and (status := _ended(place.pid)) is not None:
                self._start_again(place, status)
        if not self._said_ready and all(place.ready for place in self._places):
            self._said_ready = True
            self._say("ready")

    def _look_for_ready(self, place: _Place) -> None:
        if place.pipe >= 0:
            with suppress(BlockingIOError):
                place.ready = os.read(place.pipe, 1) == b"r"
                os.close(place.pipe)
                place.pipe = -1
                if place.ready and self._said_ready:
                    self._say("restarted", worker=place.number)
        if place.pid and not place.ready and time.monotonic() - place.started > self._patience:
            print(
                f"serve: worker {place.number} was not ready in {self._patience:g} s: killed",
                file=sys.stderr,
                flush=True,
            )
            os.kill(place.pid, signal.SIGKILL)
            place.started = time.monotonic()

    def _start_again(self, place: _Place, status: int) -> None:
        lived = time.monotonic() - place.started
        how = _how(status)
        print(
            f"serve: worker {place.number} (process {place.pid}) {how}", file=sys.stderr, flush=True
        )
        place.pid = 0
        if place.pipe >= 0:
            os.close(place.pipe)
            place.pipe = -1
        place.deaths = place.deaths + 1 if lived < _SOON or not place.ready else 1
        if place.deaths >= _DEATHS:
            self._failed = (
                f"worker {place.number} ended {place.deaths} times, each within {_SOON:g} s of its"
                " start or before it was ready"
            )
        else:
            self._fork(place)

    def _say(self, event: str, **more: object) -> None:
        """Prints a line of JSON for whoever started the server."""
        host, port = self._listening.getsockname()[:2]
        line = {
            "event": event,
            "url": f"http://{host}:{port}{self._servable.route}",
            "parent": os.getpid(),
            "workers": [
                {"number": each.number, "pid": each.pid, "cores": each.cores}
                for each in self._places
            ],
            **more,
        }
        print(json.dumps(line), flush=True)

    def _stop(self) -> int:
        """Lets workers finish the requests in flight."""
        self._listening.close()
        for place in self._places:
            if place.pid:
                os.kill(place.pid, signal.SIGTERM)
        deadline = time.monotonic() + self._limits.grace + 5
        code = 1 if self._failed else 0
        while any(place.pid for place in self._places) and time.monotonic() < deadline:
            signal.sigtimedwait(_SIGNALS, _LOOK)
            for place in self._places:
                if place.pid and (status := _ended(place.pid)) is not None:
                    if status:
                        print(f"serve: worker {place.number} {_how(status)}", file=sys.stderr)
                        code = 1
                    place.pid = 0
        for place in self._places:
            if place.pid:
                print(f"serve: worker {place.number} did not stop: killed", file=sys.stderr)
                self._kill(place)
                code = 1
        return code

    @staticmethod
    def _kill(place: _Place) -> None:
        if place.pid:
            os.kill(place.pid, signal.SIGKILL)
            os.waitpid(place.pid, 0)
            place.pid = 0


def check_one_thread() -> None:
    """Raises unless the calling thread is the only one of the process, as fork requires.

    A child has only the forking thread. OpenMP would wait for the others in its next parallel
    region.

    Raises:
        RuntimeError: there are more threads.
    """
    count = smaps.threads(os.getpid())
    if count != 1:
        raise RuntimeError(
            f"fork: expected 1 thread in the parent of the workers, got {count}; the model's"
            " prepare() must start none (OMP_NUM_THREADS=1, OPENBLAS_NUM_THREADS=1)"
        )


def _ended(pid: int) -> int | None:
    """The status of an ended child, or None while it runs."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _how(code: int) -> str:
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
