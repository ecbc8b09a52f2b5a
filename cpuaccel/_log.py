"""Logs cpuaccel's decisions: the `cpuaccel` logger, which `TORCH_LOGS="+cpuaccel"` switches on."""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Callable

logger = logging.getLogger("cpuaccel")

Sink = Callable[[str], None]


def connect(set_sink: Callable[[Sink | None], None]) -> None:
    """Connect the log of cpuaccel._C to the logger, if the logger is on.

    Otherwise cpuaccel._C gets no sink, so that it does not take the GIL for nothing.
    """
    if logger.isEnabledFor(logging.INFO) or _named_in_torch_logs():
        set_sink(_write)
        # The interpreter may end before the last message of cpuaccel._C.
        atexit.unregister(set_sink)
        atexit.register(set_sink, None)
    else:
        set_sink(None)


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its type if the message is empty."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _write(message: str) -> None:
    logger.info("%s", message)


def _named_in_torch_logs() -> bool:
    # torch reads TORCH_LOGS after it has loaded its plugins, so the logger's level is not set yet.
    names = os.environ.get("TORCH_LOGS", "").replace(" ", "").split(",")
    return any(name.removeprefix("+") == "cpuaccel" for name in names)
