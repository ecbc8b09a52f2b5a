"""What the peers, other runtimes with an int8 of their own, have in common."""

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
# Under these their tools report to nobody and ask nothing on the terminal.
_NO_TELEMETRY = {"CI": "true", "NNCF_CI": "1"}


def missing(*packages: str) -> str:
    """Which of `packages` are not installed and how to get them, or ""."""
    absent = [name for name in packages if importlib.util.find_spec(name) is None]
    return f"{', '.join(absent)} not installed: {_INSTALL}" if absent else ""


def versions(*packages: str) -> str:
    """Such as "openvino 2026.4.1, nncf 3.4.0"."""
    return ", ".join(f"{name} {version(name)}" for name in packages)


def calibration_batches(job: Job) -> list[NDArray[np.float32]]:
    """The images that torch was calibrated on, in batches of the size that is timed.

    A peer's model is of one batch size. Images come again to fill the last batch, which leaves
    the range of the activations as it is.
    """
    images = torch.cat(job.calibration)
    size = job.x.shape[0]
    count = -(-images.shape[0] // size) * size
    picked = images[torch.arange(count) % images.shape[0]]
    return [batch.contiguous().numpy() for batch in picked.split(size)]


@contextmanager
def preparing() -> Iterator[None]:
    """Around the export and quantization of a peer: outside of inference mode, which tracing does
    not take, and without the progress bars, logs and warnings of its tools.
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
    """Around the timing of a peer: its threads and torch's never spin at the same time.

    A pool of threads spins for milliseconds after its last work (ONNX Runtime's for tens of
    them), which would take a core from whoever is timed next.
    """
    settle()
    try:
        yield
    finally:
        settle()
