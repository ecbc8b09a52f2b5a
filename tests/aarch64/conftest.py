"""Tests of the package on Arm, which `make aarch64` runs under emulation; skipped elsewhere."""

from __future__ import annotations

import platform

collect_ignore_glob = [] if platform.machine() == "aarch64" else ["test_*.py"]
