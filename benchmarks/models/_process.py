"""Runs part of a benchmark in a separate process, whose last printed line is the result as JSON."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def result_of(
    module: str, arguments: Sequence[str], environment: Mapping[str, str], what: str
) -> dict[str, Any]:
    """Runs `module` with this process's environment, updated by `environment`.

    Raises:
        RuntimeError: it failed; the message is `what` and the process's output.
    """
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, **environment},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{what}:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result
