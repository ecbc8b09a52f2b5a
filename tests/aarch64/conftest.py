"""Tests of the package on Arm: `make aarch64` runs them under emulation, elsewhere they are
skipped.
"""

from __future__ import annotations

import platform

collect_ignore_glob = [] if platform.machine() == "aarch64" else ["test_*.py"]
