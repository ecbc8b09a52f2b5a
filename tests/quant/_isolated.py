"""Runs cases that may kill the process in separate processes, and reports how each ended."""

from __future__ import annotations

import importlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[1]
_MEMORY = 6 << 30
_MARK = "@case "


@dataclass(frozen=True)
class Outcome:
    """How a case ended: "returned", "crashed", or the name of the exception's type."""

    ending: str
    message: str = ""


def outcomes(
    module: str, table: str = "CASES", engine: str = "x86", **environment: str
) -> dict[str, Outcome]:
    """Run every case of a module's table, a dict of functions or of objects with a `run`.

    One process runs them in turn under that quantized engine. If a case kills it, another process
    continues with the next case.
    """
    ended: dict[str, Outcome] = {}
    start, total = 0, 1
    while start < total:
        seen, total, why = _run_from([module, table, engine, str(start)], environment)
        if not seen:
            raise RuntimeError(f"no case of {module} runs: {why}")
        for name, outcome in seen.items():
            ended[name] = outcome or Outcome("crashed", why)
        start += len(seen)
    return ended


def _run_from(
    arguments: list[str], environment: dict[str, str]
) -> tuple[dict[str, Outcome | None], int, str]:
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "quant._isolated", *arguments],
        cwd=_TESTS,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    seen: dict[str, Outcome | None] = {}
    total, name = 0, ""
    for line in process.stdout.splitlines():
        if line.startswith(_MARK):
            row = json.loads(line[len(_MARK) :])
            if "start" in row:
                name, total = row["start"], row["total"]
                seen[name] = None
            else:
                seen[name] = Outcome(row["ending"], row["message"])
    return seen, total, f"exit code {process.returncode}: {process.stderr[-300:]}"


def _say(**row: object) -> None:
    print(_MARK + json.dumps(row), flush=True)


def _run(run: Callable[[], object]) -> None:
    try:
        run()
    except Exception as error:
        _say(ending=type(error).__name__, message=str(error))
    else:
        _say(ending="returned", message="")


def main(module: str, table: str, engine: str, start: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    # A crash is an expected result here, and needs no core file.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import torch

    torch.set_num_threads(1)
    cases = getattr(importlib.import_module(module), table)
    for name in list(cases)[int(start) :]:
        _say(start=name, total=len(cases))
        torch.manual_seed(0)
        torch.backends.quantized.engine = engine
        _run(getattr(cases[name], "run", cases[name]))


if __name__ == "__main__":
    main(*sys.argv[1:])
