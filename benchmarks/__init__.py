"""Benchmarks that compare cpuaccel with torch's own kernels and with other runtimes.

Run them from the root of a checkout, such as `python -m benchmarks.models.int8_fx`; `--help`
describes each program.
"""

import sys
from pathlib import Path

# `python -m benchmarks...` puts the checkout first on sys.path. There the source folder `cpuaccel`,
# which has no compiled extension, would hide the installed package.
_ROOT = str(Path(__file__).resolve().parents[1])
sys.path[:] = [p for p in sys.path if p and str(Path(p).resolve()) != _ROOT] + [_ROOT]
