"""The tuning cache on disk: the fastest provider and oneDNN implementation of each layer.

The first plan with a layer times them (csrc/quant/provider_tuning.h, csrc/dnnl/tuning_cache.h), and
eager calls learn them on a CPU that nobody measured (csrc/base/learned_choice.h). A file for each
CPU and software version keeps the results between processes.
"""

from __future__ import annotations

import atexit
import hashlib
import platform
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path

from cpuaccel import _csv_table, _log, _native, config
from cpuaccel._files import user_folder
from cpuaccel._version import __version__

_RANK_LIMIT = 128
_NUMBERING = "by name"
"""What a rank stands for: one of oneDNN's implementations, by name. It is a part of the digest, so
that files with another scheme have another name."""


@dataclass(frozen=True)
class TunedChoice:
    """A row of the file."""

    problem: str
    """What was timed: layer, sizes, threads and ISA, as the C++ code writes them."""
    rank: int
    """The number of the fastest candidate: an implementation of oneDNN, in oneDNN's order, or a
    provider."""


_lock = threading.Lock()
_written: frozenset[TunedChoice] | None = None
"""The contents of the file, as far as this process knows; None: it was not read yet."""


def path() -> Path:
    """Return the file's path: CPUACCEL_RANKS, or a file in the user's cache folder."""
    named = str(config.get("ranks"))
    if named:
        return Path(named)
    return user_folder("XDG_CACHE_HOME", ".cache") / f"ranks-{_digest()}.csv"


def load() -> None:
    """Read the file, once per process. A damaged file is ignored with a RuntimeWarning."""
    global _written
    if config.get("deterministic"):
        return
    with _lock:
        if _written is not None:
            return
        _written = frozenset(_read())
        if _written:
            known = {row.problem: row.rank for row in _written}
            _native.load().set_tuning_results({**known, **_native.load().tuning_results()})
        atexit.register(save)


def save() -> None:
    """Write new results to the file, beside those that other processes have written."""
    global _written
    with _lock:
        if _written is None:
            return
        known = frozenset(_choices())
        if known <= _written:
            return
        by_problem = {row.problem: row for row in (*_read(), *known)}
        rows = sorted(by_problem.values(), key=lambda row: row.problem)
        try:
            _csv_table.write(path(), TunedChoice, rows)
        except OSError as error:
            _log.logger.info("the tuning cache is not saved: %s", error)
        _written = known


def _read() -> list[TunedChoice]:
    try:
        return _csv_table.read(path(), TunedChoice, _check)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError) as error:
        message = f"cpuaccel ignores the tuning cache and times layers again: {error}"
        warnings.warn(message, RuntimeWarning, stacklevel=3)
        return []


def _check(row: TunedChoice) -> None:
    if not row.problem:
        raise ValueError("problem: expected a text, got an empty one")
    if not 0 <= row.rank < _RANK_LIMIT:
        raise ValueError(f"rank: expected 0 to {_RANK_LIMIT - 1}, got {row.rank}")


def _choices() -> list[TunedChoice]:
    return [TunedChoice(*each) for each in _native.load().tuning_results().items()]


def _digest() -> str:
    """Return the digest that identifies this CPU and these software versions."""
    native = _native.load()
    parts = (
        _NUMBERING,
        __version__,
        str(native.build_info().get("onednn_runtime", "")),
        platform.machine(),
        native.cpu_vendor(),
        cpu_name(),
        *sorted(native.cpu_features()),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def cpu_name() -> str:
    """Return the CPU's family, model and name from /proc/cpuinfo; empty if it cannot be read."""
    told = ("cpu family", "model", "model name", "stepping", "CPU part")
    found: dict[str, None] = {}
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.split("\t")[0].strip() in told:
                    found[line.rstrip("\n")] = None
                elif not line.strip() and any("model name" in each for each in found):
                    break  # all processors of an x86 machine are alike, and there may be hundreds
    except OSError:
        return ""
    return ";".join(found)
