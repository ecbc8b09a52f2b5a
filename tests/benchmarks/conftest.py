"""Makes `benchmarks` importable: it is not a part of the installed package."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))
