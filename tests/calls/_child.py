"""Checks cells in a separate process: `python -m calls._child KIND`, ids on standard input.

KIND is "fork" or "address_limit". With "fork" a forked child checks what its parent has run before.
With "address_limit" the process may use at most a gibibyte of address space beyond what it has.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[1]
_ROOM = 1 << 30
_SECONDS = 540
_MARK = "@cell "


@functools.cache
def problems(kind: str) -> dict[str, str]:
    """The problem of each selected cell that a process of this kind checks."""
    from calls.cells import selected

    left = [str(cell) for cell in selected() if cell.way.child == kind]
    found: dict[str, str] = {}
    while left:  # if a cell ends the process, the remaining ones run in another
        seen, why = _run(kind, left)
        found |= seen
        left = [each for each in left if each not in seen]
        if left:
            found[left.pop(0)] = why
    return found


def _run(kind: str, ids: Iterable[str]) -> tuple[dict[str, str], str]:
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "calls._child", kind],
        cwd=_TESTS,
        input="\n".join(ids),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
        env={**os.environ, "PYTHONPATH": ""},
    )
    lines = (line for line in process.stdout.splitlines() if line.startswith(_MARK))
    rows = (json.loads(line[len(_MARK) :]) for line in lines)
    return dict(rows), f"ends the process with {process.returncode}: {process.stderr[-300:]}"


def _say(name: str) -> None:
    from calls.cells import BY_ID, check

    try:
        said = check(BY_ID[name])
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    print(_MARK + json.dumps([name, said]), flush=True)


def _after_fork(ids: list[str]) -> None:
    from calls.cells import BY_ID, check

    for name in ids:
        check(BY_ID[name])
    pid = os.fork()
    if pid:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    for name in ids:
        _say(name)


def _with_limit(ids: list[str]) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + _ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for name in ids:
        _say(name)


def main(kind: str) -> None:
    # The folder `tests` comes last, because some of its modules share names with others.
    sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != _TESTS] + [str(_TESTS)]
    import torch

    torch.set_num_threads(1)  # libgomp's threads do not survive a fork
    {"fork": _after_fork, "address_limit": _with_limit}[kind](sys.stdin.read().split())


if __name__ == "__main__":
    main(*sys.argv[1:])
