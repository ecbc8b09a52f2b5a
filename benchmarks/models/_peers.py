"""Shared by the peers (other runtimes with their own int8): versions, calibration, threads."""

import importlib.util
import io
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib.metadata import version

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks._timing import settle
from benchmarks.models._job import Job

_INSTALL = "pip install -r requirements/peers.txt"
# With these set, the peers' tools send no telemetry and ask nothing on the terminal.
_NO_TELEMETRY = {"CI": "true", "NNCF_CI": "1"}


def missing(*packages: str) -> str:
    """Which of `packages` are missing and how to install them, or ""."""
    absent = [name for name in packages if importlib.util.find_spec(name) is None]
    return f"{', '.join(absent)} not installed: {_INSTALL}" if absent else ""


def versions(*packages: str) -> str:
    """Such as "openvino 2026.4.1, nncf 3.4.0"."""
    return ", ".join(f"{name} {version(name)}" for name in packages)


def calibration_batches(job: Job) -> list[NDArray[np.float32]]:
    """The images that torch was calibrated on, in batches of the size that is timed.

    A peer's model has a fixed batch size. Images repeat to fill the last batch, which does not
    change the range of the activations.
    """
    images = torch.cat(job.calibration)
    size = job.x.shape[0]
    count = -(-images.shape[0] // size) * size
    picked = images[torch.arange(count) % images.shape[0]]
    return [batch.contiguous().numpy() for batch in picked.split(size)]


@contextmanager
def preparing() -> Iterator[None]:
    """Context for the export and quantization of a peer's model.

    It leaves inference mode, which tracing does not accept, and hides the tools' progress bars,
    logs and warnings.
    """
    before = {name: os.environ.get(name) for name in _NO_TELEMETRY}
    os.environ.update(_NO_TELEMETRY)
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with (
            warnings.catch_warnings(),
            redirect_stdout(io.StringIO()),
            torch.inference_mode(False),
            torch.no_grad(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def apart() -> Iterator[None]:
    """Context for timing a peer, so that its threads and torch's never spin at the same time.

    A thread pool spins for milliseconds after its last work (ONNX Runtime's for tens of them),
    which would take a core from the next contender.
    """
    settle()
    try:
        yield
    finally:
        settle()
