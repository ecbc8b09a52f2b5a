"""Benchmarks of cpuaccel against torch's own engines; run them from the root of a checkout."""

import sys
from pathlib import Path

# `python -m benchmarks...` puts the checkout first on the path, where the source folder
# `cpuaccel`, which has no compiled extension, would hide the installed package.
_ROOT = str(Path(__file__).resolve().parents[1])
sys.path[:] = [p for p in sys.path if p and str(Path(p).resolve()) != _ROOT] + [_ROOT]
