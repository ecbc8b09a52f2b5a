"""The server with a tiny model: its answers, errors and limits, its end, and lost workers."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import torch

pytest.importorskip("aiohttp", reason="aiohttp is not installed (examples/serve/requirements.txt)")

import _served_echo

from examples.serve import clients, server, smaps

_ROOT = Path(__file__).resolve().parents[2]
_SERVE = _ROOT / "examples" / "serve"
_PATIENCE = 100.0
_MODEL = ("--model", "_served_echo:Echo")
_BODY = b'{"numbers": [1, 2, 3, 4]}'
_cores = len(os.sched_getaffinity(0))
needs_two_cores = pytest.mark.skipif(_cores < 2, reason="one core: two workers have none each")


class Server:
    """A running server, and its messages."""

    def __init__(self, process: subprocess.Popen[str], ready: dict[str, Any]) -> None:
        self.process, self.ready = process, ready
        self.url: str = ready["url"]

    def event(self) -> dict[str, Any]:
        """The next event."""
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def pids(self) -> list[int]:
        return [each["pid"] for each in self.ready["workers"]]


@contextmanager
def serving(*arguments: str, form: str = "quick") -> Iterator[Server]:
    """A server on a free port."""
    process = _start("server.py", "--form", form, "--port", "0", *arguments)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield Server(process, json.loads(line))
    finally:
        _end(process)


def _start(program: str, *arguments: str, run: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, *run, str(_SERVE / program)),
            *(*_MODEL, "--plugin", "off", *arguments),
        ],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent), "GLOO_SOCKET_IFNAME": "lo"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise


def ask(url: str, body: bytes | None = _BODY) -> tuple[int, Any, Any]:
    """Status, answer and headers."""
    try:
        with urlopen(Request(url, body), timeout=_PATIENCE) as response:
            return response.status, json.loads(response.read()), response.headers
    except HTTPError as error:
        return error.code, json.loads(error.read() or b"null"), error.headers


def wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_answers_and_bad_requests() -> None:
    with serving("--workers", "1") as running:
        status, answer, headers = ask(running.url)
        assert status == 200
        expected = torch.tensor([1.0, 2.0, 3.0, 4.0]) @ _served_echo.weights()
        assert answer == {"sums": expected.tolist(), "threads": 1}
        assert headers["X-Worker"] == "0"
        for body in (b"{", b"[]", b"{}", b'{"numbers": [1]}', b'{"numbers": 3}'):
            status, answer, _ = ask(running.url, body)
            assert status == 400
            assert answer["field"] in answer["error"]
            assert answer["expected"] in answer["error"]
        assert ask(running.url, b'{"numbers": [1]}')[1]["field"] == "numbers"
        status, answer, _ = ask(running.url, b'"' + b"a" * 70000 + b'"')
        assert (status, answer["field"]) == (413, "body")
        status, answer, _ = ask(running.url, b'{"numbers": ["a", 2, 3, 4]}')
        assert status == 500
        assert "the model failed" in answer["error"]
        status, answer, _ = ask(running.url.replace("/echo", "/status"), None)
        assert (status, answer["answered"], answer["failed"]) == (200, 1, 1)
        assert answer["pid"] == running.pids()[0]
        running.process.terminate()
        _, errors = running.process.communicate(timeout=_PATIENCE)
    assert running.process.returncode == 0, errors
    assert "Traceback" in errors  # of the model's failure, for whoever runs the server


@needs_two_cores
def test_workers_have_cores_of_their_own_and_one_copy_of_the_weights() -> None:
    with serving("--workers", "2", "--threads", "1") as running:
        sets = [os.sched_getaffinity(pid) for pid in running.pids()]
        assert [len(each) for each in sets] == [1, 1]
        assert not sets[0] & sets[1]
        assert [set(each["cores"]) for each in running.ready["workers"]] == sets
        load = clients.Load(4, 1.0, 0.0, fresh=True)
        result = clients.run([clients.Target.of(running.url)], [_BODY], load)
        assert result.answers
        assert not result.errors
        # Only the workers accept from that socket. One of them may have been fast enough to take
        # all.
        assert set(result.workers) <= {"0", "1"}
        for pid in running.pids():
            memory = smaps.of(pid)
            assert memory.private < memory.shared


@needs_two_cores
def test_a_worker_has_its_threads() -> None:
    with serving("--workers", "1", "--threads", "2") as running:
        assert ask(running.url)[1]["threads"] == 2


def test_a_full_queue_rejects_requests_with_a_message() -> None:
    with (
        serving("--workers", "1", "--queue", "1", form="slow") as running,
        ThreadPoolExecutor(6) as pool,
    ):
        answers = list(pool.map(lambda _: ask(running.url), range(6)))
    codes = [status for status, _, _ in answers]
    assert codes.count(200) >= 2
    assert codes.count(503) >= 1
    refused = next(each for each in answers if each[0] == 503)
    assert "1 requests wait, and no more may; try again" in refused[1]["error"]
    assert refused[2]["Retry-After"] == "1"
    assert running.process.returncode == 0


def test_what_is_in_flight_is_answered_before_the_end() -> None:
    with serving("--workers", "1", form="slow") as running, ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(ask, running.url) for _ in range(3)]
        status = running.url.replace("/echo", "/status")
        wait_for(lambda: ask(status, None)[1]["answered"] >= 1)
        running.process.send_signal(signal.SIGTERM)
        assert [each.result()[0] for each in asked] == [200, 200, 200]
        running.process.communicate(timeout=_PATIENCE)
        assert running.process.returncode == 0
        with pytest.raises(OSError, match="refused"):
            ask(running.url)


def test_a_worker_that_dies_is_started_again() -> None:
    with serving("--workers", "1") as running:
        before = running.pids()[0]
        with pytest.raises(OSError, match=r"closed|reset"):
            ask(running.url, b'{"numbers": ["die", 0, 0, 0]}')
        event = running.event()
        assert (event["event"], event["worker"]) == ("restarted", 0)
        assert event["workers"][0]["pid"] != before
        assert ask(running.url)[0] == 200
        running.process.terminate()
        _, errors = running.process.communicate(timeout=_PATIENCE)
    assert f"worker 0 (process {before}) was ended by SIGKILL" in errors


def test_workers_that_cannot_start_end_the_server() -> None:
    process = _start("server.py", "--form", "dies at once", "--port", "0", "--workers", "1")
    out, errors = process.communicate(timeout=_PATIENCE)
    assert process.returncode == 1
    assert not out
    assert "worker 0 (process " in errors
    assert "ended with exit code 7" in errors
    assert "ended 3 times" in errors


def test_workers_end_with_their_parent() -> None:
    with serving("--workers", "1") as running:
        running.process.kill()
        running.process.wait()
        wait_for(lambda: all(_gone(pid) for pid in running.pids()))


@pytest.fixture
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restores the environment."""
    monkeypatch.setattr(server, "environment", lambda plugin: {})


@pytest.mark.usefixtures("_settings")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--workers", "999"), f"expected at most {_cores}, .* got 999 x 1"),
        (("--form", "odd"), "--form: expected quick"),
        (("--port", "99999"), "--port 99999: "),
        (("--host", "203.0.113.1"), r"--host 203\.0\.113\.1 --port 0: "),
        (("--queue", "-1"), "--queue: expected 0 or more, got -1"),
        (("--grace", "nan"), "--grace: expected seconds, 0 or more, got nan"),
    ],
)
def test_settings_that_cannot_be(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as found:
        server.main([*_MODEL, "--form", "quick", "--port", "0", "--workers", "1", *arguments])
    assert re.search(message, f"{found.value} {capsys.readouterr().err}")


@pytest.mark.usefixtures("_settings")
def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        with pytest.raises(SystemExit, match=rf"--port {port}: \[Errno 98\]"):
            server.main([*_MODEL, "--form", "quick", "--workers", "1", "--port", port])


@needs_two_cores
@pytest.mark.skipif(
    not torch.distributed.is_available(), reason="this torch has no torch.distributed"
)
def test_replicas_of_torchrun_are_gone_round() -> None:
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nnodes=1", "--nproc-per-node=2")
    process = _start("replica.py", "--form", "quick", "--port", "0", run=torchrun)
    pids: list[int] = []
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        urls = json.loads(line)["urls"]
        assert len(set(urls)) == 2
        targets = [clients.Target.of(url) for url in urls]
        result = clients.run(targets, [_BODY], clients.Load(2, 0.5, 0.0))
        assert set(result.workers) == {"0", "1"}
        assert not result.errors
        assert not result.left
        pids = [ask(url.replace("/echo", "/status"), None)[1]["pid"] for url in urls]
        sets = [os.sched_getaffinity(pid) for pid in pids]
        assert not sets[0] & sets[1]
        # If a replica ends, the clients use the other one.
        os.kill(pids[0], signal.SIGTERM)
        wait_for(lambda: _gone(pids[0]))
        result = clients.run(targets, [_BODY], clients.Load(2, 0.5, 0.0))
        assert set(result.workers) == {"1"}
        assert result.left
        assert not result.errors
    finally:
        for pid in pids:
            if not _gone(pid):
                os.kill(pid, signal.SIGTERM)
        if not pids:
            process.terminate()
        process.communicate(timeout=_PATIENCE)
    assert process.returncode == 0


def test_a_replica_without_torchrun_says_so() -> None:
    process = _start("replica.py", "--form", "quick", "--port", "0")
    _, errors = process.communicate(timeout=_PATIENCE)
    assert process.returncode == 1
    assert "expected to be started by torchrun, which sets RANK" in errors
