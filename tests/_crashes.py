"""Reports the stacks of a crashed test process; xdist itself reports only the test's name."""

from __future__ import annotations

import faulthandler
import os
import tempfile
from pathlib import Path

import pytest

_FOLDER = "CPUACCEL_TEST_CRASHES"


@pytest.hookimpl(trylast=True)  # pytest sends the stacks to stderr, far from the report
def pytest_configure(config: pytest.Config) -> None:
    """Creates the folder where workers, which inherit it, write the stacks of a crash."""
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        stacks = os.open(Path(os.environ[_FOLDER], worker), os.O_WRONLY | os.O_CREAT)
        faulthandler.enable(stacks)
        config.add_cleanup(lambda: (faulthandler.disable(), os.close(stacks)))
    else:
        folder = tempfile.TemporaryDirectory(prefix="crashes")
        config.add_cleanup(folder.cleanup)
        os.environ[_FOLDER] = folder.name


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: pytest.TestReport) -> None:
    """Adds the stacks of the worker that ran `crashitem` to its report."""
    del crashitem
    for stacks in sorted(Path(os.environ[_FOLDER]).iterdir()):
        if text := stacks.read_text():
            stacks.unlink()
            report.sections.append((f"where {stacks.name} crashed", text))
