"""Files of the capture cache: JSON values under a key, in a folder of bounded size.

The first line of a file is a digest of the rest, so that a damaged or truncated file is not read.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

from cpuaccel import _log, config
from cpuaccel._files import user_folder, write_atomically

_SUFFIX = ".json"
_MIB = 1 << 20


def folder() -> Path:
    """Return the folder: CPUACCEL_CAPTURE_CACHE, or one in the user's cache folder."""
    named = str(config.get("capture_cache"))
    return Path(named) if named else user_folder("XDG_CACHE_HOME", ".cache") / "captures"


def is_on() -> bool:
    """Say whether captures are kept on disk."""
    return _most_bytes() > 0


def _most_bytes() -> int:
    return int(config.get("capture_cache_mib")) * _MIB


def load(key: str) -> Any:
    """Return what was saved under a key; None if there is nothing, or if it cannot be read."""
    path = folder() / f"{key}{_SUFFIX}"
    try:
        digest, _, text = path.read_text(encoding="utf-8").partition("\n")
        if digest != _digest_of(text):
            raise ValueError("it is damaged or truncated")
        found = json.loads(text)
        now = time.time()
        os.utime(path, (now, now))  # the files that were read last stay
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _log.logger.info("capture cache: %s is not read: %s", path, _log.first_line(error))
        return None
    return found


def save(key: str, values: Any) -> None:
    """Save JSON values under a key, and remove the oldest files beyond the limit.

    Errors are only logged.
    """
    try:
        text = json.dumps(values, separators=(",", ":"))
        write_atomically(folder() / f"{key}{_SUFFIX}", f"{_digest_of(text)}\n{text}")
        _remove_oldest()
    except (OSError, TypeError, ValueError) as error:
        _log.logger.info("capture cache: a capture is not saved: %s", _log.first_line(error))


def _remove_oldest() -> None:
    files = []
    for path in folder().glob(f"*{_SUFFIX}"):
        try:
            stat = path.stat()
        except FileNotFoundError:  # another process has removed it
            continue
        files.append((stat.st_mtime_ns, stat.st_size, path))
    left = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if left <= _most_bytes():
            break
        path.unlink(missing_ok=True)
        left -= size


def _digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
