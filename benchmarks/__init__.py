"""Benchmarks that compare cpuaccel with torch's own engines; run them from a checkout's root."""

import sys
from pathlib import Path

# `python -m benchmarks...` puts the checkout first on sys.path. There the source folder `cpuaccel`,
# which has no compiled extension, would hide the installed package.
_ROOT = str(Path(__file__).resolve().parents[1])
sys.path[:] = [p for p in sys.path if p and str(Path(p).resolve()) != _ROOT] + [_ROOT]
