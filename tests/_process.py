"""Runs code in a separate Python process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

_SECONDS = 300


def run_python(code: str, *, cwd: Path | None = None, **environment: str) -> str:
    """Runs `code` in a new process and returns its output; fails with its stderr if it fails.

    Args:
        code: The program.
        cwd: Where it runs, the folder for temporary files by default. Never the checkout: the
            sources would be imported instead of the installed package.
        environment: Variables beside those of this process.
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=cwd or tempfile.gettempdir(),
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )
    if done.returncode != 0:
        pytest.fail(f"exit status {done.returncode}: {done.stderr[-4000:]}")
    return done.stdout.strip()
