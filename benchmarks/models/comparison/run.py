"""Runs a case in its own process, and again without any column that crashes or hangs it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.models.comparison.cases import Case

_ROOT = Path(__file__).resolve().parents[3]
_LAST_LINES = 3


def run_case(
    case: Case,
    *,
    peers: Sequence[str],
    rounds: int,
    budget: float,
    patience: float,
    clock: str = "wall",
) -> dict[str, Any]:
    """The results of `case` beside `peers`; "error" says why nothing was measured.

    If a column ends the process or makes it take more than `patience` seconds, the other columns
    run again without it.
    """
    ended: dict[str, str] = {}
    while True:
        with TemporaryDirectory() as folder:
            status, result = Path(folder) / "status", Path(folder) / "result"
            command = [
                *(sys.executable, "-m", "benchmarks.models.comparison.child"),
                *("--case", json.dumps(case.to_dict())),
                *("--peers", ",".join(peers), "--without", ",".join(ended)),
                *("--rounds", str(rounds), "--budget", str(budget), "--clock", clock),
                *("--status", str(status), "--result", str(result)),
            ]
            why = _failure(command, case.threads, patience)
            if not why:
                found: dict[str, Any] = json.loads(result.read_text())
                found["failed"] |= ended
                return found
            column = status.read_text() if status.exists() else ""
        if not column:
            return {"case": case.to_dict(), "error": why}
        ended[column] = why


def _failure(command: list[str], threads: int, patience: float) -> str:
    """Runs `command`; returns why it failed, or ""."""
    process = subprocess.Popen(
        command,
        env=_environment(threads),
        cwd=_ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # lets the compilers that it started be ended with it
    )
    try:
        _, errors = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        return f"did not finish in {patience:g} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode == 0:
        return ""
    if process.returncode < 0:
        return f"ended by {signal.Signals(-process.returncode).name}"
    return " ".join(errors.strip().splitlines()[-_LAST_LINES:]) or f"exit {process.returncode}"


def _environment(threads: int) -> dict[str, str]:
    return {
        **os.environ,
        "CPUACCEL": "1",
        "OMP_NUM_THREADS": str(threads),
        # Compilers in parallel would take the measured process's cores.
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
