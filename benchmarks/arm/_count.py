"""Instructions that this process executed, counted by the emulator it runs under."""

import contextlib
import os
from collections.abc import Callable

_VARIABLE = "CPUACCEL_INSTRUCTIONS"
_MARK = 0xC0DE
_CALLS = 4


def check() -> None:
    """Raise SystemExit if nobody counts."""
    if not os.environ.get(_VARIABLE):
        raise SystemExit("instructions are not counted: python tools/aarch64 run --count PROGRAM")


def per_call(run: Callable[[], object], calls: int = _CALLS) -> int:
    """Instructions of one call of `run`, which was called before: the mean of some calls."""
    first = _now()
    nothing = _now() - first
    begin = _now()
    for _ in range(calls):
        run()
    return (_now() - begin - nothing) // calls


def _now() -> int:
    """What was counted so far, all threads together. The emulator's plugin watches this call."""
    with contextlib.suppress(OSError):
        os.getpriority(_MARK, 0)
    with open(os.environ[_VARIABLE], "rb") as file:
        return int(file.read().split()[-1])
