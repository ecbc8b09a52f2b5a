"""Cases about threads of the whole process and about forks. See test_threads.py."""

from __future__ import annotations

import os
import signal
import threading
import time

import torch

from quant import _models as m

_PATIENCE = 60.0
"""A child that runs longer than this many seconds counts as hung."""


def _in_child(model: torch.nn.Module, x: torch.Tensor, expected: torch.Tensor) -> None:
    """Forks; the child runs the model and must get `expected`."""
    pid = os.fork()
    if pid == 0:
        ending = 1
        try:
            # libgomp's threads do not survive a fork, which is the same with torch alone.
            torch.set_num_threads(1)
            ending = 0 if torch.equal(m.output(model, x), expected) else 2
        finally:
            os._exit(ending)
    deadline = time.monotonic() + _PATIENCE
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            assert code == 0, f"the child ended with {code}"
            return
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise AssertionError("the child hangs")
        time.sleep(0.01)


def _forked(kind: str) -> None:
    torch.set_num_threads(1)
    model, x = m.build(kind)
    _in_child(model, x, m.output(model, x))


def _forked_before_the_first_call(kind: str) -> None:
    torch.set_num_threads(1)
    model, x = m.build(kind)
    again, _ = m.build(kind)
    expected = m.output(again, x)
    _in_child(model, x, expected)


def _forked_while_threads_run() -> None:
    """Engine locks that another thread holds at the fork must not block the child."""
    torch.set_num_threads(1)
    model, x = m.build("conv2d")
    other, _ = m.build("conv2d", seed=8)
    expected = m.output(model, x)
    stop = threading.Event()

    def work() -> None:
        batch = 0
        while not stop.is_set():
            batch = batch % 7 + 1
            m.output(other, m.image(batch=batch))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(10):
            _in_child(model, x, expected)
    finally:
        stop.set()
        thread.join()
    assert torch.equal(m.output(model, x), expected)


def _one_thread_is_one() -> None:
    """No thread is started for a model if torch is told to use one."""
    torch.set_num_threads(1)
    model, _ = m.build("conv2d")
    before = len(os.listdir("/proc/self/task"))
    m.output(model, torch.randn(8, 3, 64, 64))
    after = len(os.listdir("/proc/self/task"))
    assert after == before, f"{after - before} threads were started"


CASES = {
    "fork: conv2d": lambda: _forked("conv2d"),
    "fork: linear": lambda: _forked("linear"),
    "fork: lstm": lambda: _forked("lstm"),
    "fork before the first call: conv2d": lambda: _forked_before_the_first_call("conv2d"),
    "fork before the first call: lstm": lambda: _forked_before_the_first_call("lstm"),
    "fork while threads run": _forked_while_threads_run,
    "one thread is one": _one_thread_is_one,
}
